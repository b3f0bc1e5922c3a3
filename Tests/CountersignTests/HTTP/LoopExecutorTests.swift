import Hummingbird
import Logging
import NIOCore
import NIOPosix
import Synchronization
import Testing

@testable import Countersign

/// Knows whose connection a request came by.
private struct LoopContext: RequestContext {
  var coreContext: CoreRequestContextStorage
  let loop: any EventLoop

  init(source: ApplicationRequestContextSource) {
    coreContext = CoreRequestContextStorage(source: source)
    loop = source.channel.eventLoop
  }
}

@Suite struct LoopExecutorTests {
  @Test func `what runs on it runs on its event loop's thread, and comes back there`() async {
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    #expect(!loop.inEventLoop)
    await withTaskExecutorPreference(LoopExecutor(loop)) {
      #expect(loop.inEventLoop)
      await Task.yield()
      #expect(loop.inEventLoop)
      try? await loop.makeSucceededVoidFuture().get()
      #expect(loop.inEventLoop)
      await withTaskGroup { group in
        group.addTask { #expect(loop.inEventLoop) }
      }
    }
    #expect(!loop.inEventLoop)
  }

  /// Through the very channels that the service listens with.
  @Test func `a request is handled on its connection's own thread`() async throws {
    let router = Router(context: LoopContext.self)
    router.get("thread") { _, context in context.loop.inEventLoop ? "its own" : "another" }
    let ports = AsyncStream.makeStream(of: Int.self)
    let application = Application(
      router: router, server: try SampleConfiguration().load().server.protocols(nil),
      configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
      onServerRunning: { channel in ports.continuation.yield(channel.localAddress?.port ?? 0) },
      logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }))
    let server = Task { try await application.run() }
    defer { server.cancel() }
    var running = ports.stream.makeAsyncIterator()
    let port = try #require(await running.next())
    let answer = try await RawClient.exchange(
      port: port, ["GET /thread HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"])
    #expect(answer.hasSuffix("its own"))
  }
}
