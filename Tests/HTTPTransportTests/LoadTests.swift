import Foundation
import HTTPTransport
import Synchronization
import Testing
import TestSupport

extension HTTPTransportTests {
  @Suite struct Load {
    @Test func `a thousand requests go through 64 slots, and each gets its own answer`() async throws {
      let bench = try Bench()
      let name = "load-test"
      let threads = Mutex(0)
      try await RawTLSServer.answering(identity: bench.identity) { request in
        let count = Self.threads(named: name)
        threads.withLock { $0 = max($0, count) }
        return TestAnswer(text: request.text + request.target)
      } during: { server in
        try await bench.withTransport({ $0.threadName = name }) { transport in
          await withTaskGroup(of: Bool.self) { group in
            for number in 0..<1000 {
              group.addTask {
                let outcome = await transport.outcome(.post("\(server.origin)/\(number)", "\(number)"))
                return (try? outcome.get().text) == "\(number)/\(number)"
              }
            }
            var right = 0
            for await isRight in group where isRight { right += 1 }
            #expect(right == 1000)
          }
          let statistics = transport.statistics
          #expect(statistics.peakInFlight == 64)
          #expect(statistics.connectionsOpened <= 64)
          #expect(statistics.transfersCompleted == 1000)
          #expect(statistics.inFlight == 0 && statistics.queued == 0)
        }
        #expect(server.connectionsAccepted <= 64)
      }
      // libcurl's own threads would bear the name of the one that started them.
      #expect(threads.withLock { $0 } == 1)
      // A thread that was joined is in the kernel's list for a moment.
      await Self.until { Self.threads(named: name) == 0 }
    }

    @Test func `a loop with nothing to do sleeps`() async throws {
      try await Bench.withSilentServer { transport, server in
        #expect(await transport.outcome(.get(server.origin), within: .seconds(2)).error == .timedOut)
        // Connecting, the handshake, sending and the deadline; a loop that spins comes to millions.
        #expect(transport.statistics.loopWakeups < 50)
      }
    }

    @Test func `one request more than slots and queue hold is refused at once`() async throws {
      try await Bench.withSilentServer {
        $0.maxInFlight = 2
        $0.maxQueued = 3
      } _: { transport, server in
        let held = (0..<5).map { _ in Task { await transport.outcome(.get(server.origin)) } }
        await Self.until { transport.statistics.inFlight == 2 && transport.statistics.queued == 3 }
        #expect(await transport.outcome(.get(server.origin)).error == .overloaded)

        // One leaves the queue: there is a place again, and its owner waits in it until the deadline.
        held[4].cancel()
        #expect(await held[4].value.error == .cancelled)
        #expect(await transport.outcome(.get(server.origin), within: .milliseconds(100)).error == .timedOut)
        for task in held { task.cancel() }
        for task in held { #expect(await task.value.error == .cancelled) }
      }
    }

    @Test func `a deadline that passes in the queue ends the wait on time`() async throws {
      try await Bench.withSilentServer({ $0.maxInFlight = 1 }) { transport, server in
        let stalled = Task { await transport.outcome(.get(server.origin)) }
        await Self.until { transport.statistics.inFlight == 1 }
        #expect(await transport.outcome(.get(server.origin), within: .milliseconds(200)).error == .timedOut)
        // It did not wait for the slot: that is still taken.
        #expect(transport.statistics.inFlight == 1)
        stalled.cancel()
        #expect(await stalled.value.error == .cancelled)
      }
    }

    @Test func `a deadline in the past sends nothing`() async throws {
      try await Bench().withTransport { transport in
        #expect(await transport.outcome(.get("https://127.0.0.1:1/"), within: .zero).error == .timedOut)
        #expect(transport.statistics.requestsEnded == 0)
      }
    }

    @Test func `shutting down ends what is in flight, what waits, and what comes later`() async throws {
      try await Bench.withSilentServer {
        $0.maxInFlight = 2
      } _: { transport, server in
        let held = (0..<5).map { _ in Task { await transport.outcome(.get(server.origin)) } }
        await Self.until { transport.statistics.inFlight == 2 && transport.statistics.queued == 3 }
        transport.shutdown()
        transport.shutdown()
        for task in held { #expect(await task.value.error == .shutDown) }
        #expect(await transport.outcome(.get(server.origin)).error == .shutDown)
        #expect(transport.statistics.inFlight == 0 && transport.statistics.queued == 0)
      }
    }

    @Test(arguments: 0..<10)
    func `every request ends once, whatever races with it`(_ round: Int) async throws {
      let bench = try Bench()
      try await RawTLSServer.answering(identity: bench.identity) {
        TestAnswer(text: $0.text)
      } during: { server in
        try await bench.withTransport({ $0.maxInFlight = 8 }) { transport in
          let tasks = (0..<200).map { number in
            Task {
              await transport.outcome(
                .post(server.origin, "\(number)"), within: number % 5 == 0 ? .milliseconds(number) : .seconds(60))
            }
          }
          for (number, task) in tasks.enumerated() where number % 3 == 0 { task.cancel() }
          await Self.until { transport.statistics.requestsEnded > 20 * round }
          transport.shutdown()
          for (number, task) in tasks.enumerated() {
            switch await task.value {
            case .success(let response): #expect(response.text == "\(number)")
            case .failure(let error): #expect([.cancelled, .timedOut, .shutDown].contains(error))
            }
          }
        }
      }
    }

    /// Lets others work until something holds that they will bring about.
    static func until(_ condition: () -> Bool) async {
      while !condition() && !Task.isCancelled { await Task.yield() }
    }

    static func threads(named name: String) -> Int {
      let tasks = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")) ?? []
      return tasks.count { task in
        (try? String(contentsOfFile: "/proc/self/task/\(task)/comm", encoding: .utf8)) == name + "\n"
      }
    }
  }
}
