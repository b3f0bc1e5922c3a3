import Foundation
import HTTPTypes
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import Testing

@testable import Countersign
@testable import CountersignServer
@testable import JSON
@testable import Resilience

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
      // A text that is not plain may need much memory, and takes turns.
      let plain = try await JSONReader.shared.read(Array(#"{"a":1}"#.utf8)) { _ in loop.inEventLoop }
      let other = try await JSONReader.shared.read(Array(#"{"\u0061":1}"#.utf8)) { _ in loop.inEventLoop }
      #expect(plain)
      #expect(!other)
      #expect(loop.inEventLoop)
    }
  }

  @Test func `the service accepts connections on a loop's thread, and not on the shared ones`() async throws {
    let directory = try TemporaryDirectory()
    let listening = AsyncStream.makeStream(of: Bool.self)
    let service = try await buildApplication(
      try SampleConfiguration().setting("server.port", "0")
        .setting("ledger.path", directory.url.appending(path: "ledger.sqlite").path(percentEncoded: false)).load(),
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
  func `at most a 32nd of the connections that may be held is accepted at once`(held: Int, atOnce: Int) {
    #expect(ServiceListener.acceptedAtOnce(of: held) == atOnce)
  }

  /// Through the very channels that the service listens with.
  @Test func `a request, and what it shares with others, is handled on its connection's own thread`() async throws {
    let flights = SingleFlight<String, (any EventLoop)?>()
    let answer: Handler = { _, _ in
      let own = MultiThreadedEventLoopGroup.currentEventLoop
      // A flight belongs to no request, and yet no thread has to be woken for it.
      let flight = await flights.run("question") {
        await Task.yield()
        return MultiThreadedEventLoopGroup.currentEventLoop
      }
      let isSame = own.map { own in flight.map { $0 === own } ?? false } ?? false
      return Response(status: isSame && MultiThreadedEventLoopGroup.currentEventLoop === own ? .ok : .conflict)
    }
    try await RunningFront.run(["/thread": [.get: answer]]) { port, _ in
      let answer = try await RawClient.exchange(
        port: port, ["GET /thread HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"])
      #expect(answer.hasPrefix("HTTP/1.1 200 OK"), "\(answer)")
    }
  }
}
