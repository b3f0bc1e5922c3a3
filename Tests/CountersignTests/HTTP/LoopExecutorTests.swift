import Foundation
import Hummingbird
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization
import Testing

@testable import Countersign
@testable import CountersignServer
@testable import JSON
@testable import Resilience

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
  @Test func `a task of the executor runs on the event loop's thread, and comes back there`() async {
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

  @Test func `large work leaves the loop, and its task comes back`() async throws {
    let loop = MultiThreadedEventLoopGroup.singleton.next()
    try await withTaskExecutorPreference(LoopExecutor(loop)) {
      #expect(await LongWork.run(bytes: 65_536) { loop.inEventLoop })
      #expect(await LongWork.run(bytes: 65_537) { !loop.inEventLoop })
      #expect(loop.inEventLoop)
      // What is not plain may need much memory, and takes turns.
      let plain = try await JSONReader.shared.read(Array(#"{"a":1}"#.utf8)) { _ in loop.inEventLoop }
      let other = try await JSONReader.shared.read(Array(#"{"\u0061":1}"#.utf8)) { _ in loop.inEventLoop }
      #expect(plain)
      #expect(!other)
      #expect(loop.inEventLoop)
    }
  }

  @Test func `jobs leave the loop to those who connect`() async throws {
    struct Job: Service {
      let seen: AsyncStream<Bool>.Continuation
      func run() async throws { seen.yield(MultiThreadedEventLoopGroup.currentEventLoop != nil) }
    }
    let seen = AsyncStream.makeStream(of: Bool.self)
    try await withTaskExecutorPreference(LoopExecutor(MultiThreadedEventLoopGroup.singleton.next())) {
      try await Job(seen: seen.continuation).run()
      try await OnSharedThreads(base: Job(seen: seen.continuation)).run()
    }
    seen.continuation.finish()
    #expect(await seen.stream.reduce(into: []) { $0.append($1) } == [true, false])
  }

  @Test func `the service accepts connections on a loop's thread, and not on the shared ones`() async throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "countersign-\(UUID())")
    try FileManager.default.createDirectory(at: directory, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: directory) }
    let listening = AsyncStream.makeStream(of: Bool.self)
    let service = try await buildApplication(
      try SampleConfiguration().setting("server.port", "0")
        .setting("ledger.path", directory.appending(path: "ledger.sqlite").path(percentEncoded: false)).load(),
      environment: ServiceEnvironment(
        logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }), ledgerFailed: { _ in },
        onListening: { _ in listening.continuation.yield(MultiThreadedEventLoopGroup.currentEventLoop != nil) }))
    let group = ServiceGroup(
      configuration: ServiceGroupConfiguration(
        services: [service], logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() })))
    try await withThrowingTaskGroup { tasks in
      tasks.addTask { try await group.run() }
      var running = listening.stream.makeAsyncIterator()
      #expect(await running.next() == true)
      await group.triggerGracefulShutdown()
      try await tasks.waitForAll()
    }
  }

  @Test(arguments: [(1, 1), (100, 3), (10_000, 256), (100_000, 256)])
  func `at most a 32nd of the connections that may be held is accepted at once`(held: Int, atOnce: Int) throws {
    let server = try SampleConfiguration().setting("server.max_connections", "\(held)").load().server
    #expect(server.acceptedAtOnce == atOnce)
  }

  /// Through the very channels that the service listens with.
  @Test func `a request is handled on its connection's own thread`() async throws {
    let router = Router(context: LoopContext.self)
    let flights = SingleFlight<String, Bool>()
    router.get("thread") { _, context in
      let loop = context.loop
      // A flight belongs to no request, and yet no thread has to be woken for it.
      let isFlightThere = await flights.run("question") {
        await Task.yield()
        return loop.inEventLoop
      }
      return loop.inEventLoop && isFlightThere ? "its own" : "another"
    }
    let ports = AsyncStream.makeStream(of: Int.self)
    let application = Application(
      responder: TaskPerRequest(router.buildResponder()),
      server: try SampleConfiguration().load().server.protocols(nil),
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
