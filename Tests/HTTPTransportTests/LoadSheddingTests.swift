import HTTPTransport
import Testing
import TestSupport

extension HTTPTransportTests {
  /// One slot, and a server that answers only what it is told to. The first call of each test ends at its deadline of
  /// 500 ms: from then on the transport takes calls to last that long.
  @Suite struct LoadShedding {
    private static func running(
      _ body: (CurlTransport, RawTLSServer, _ answer: Event) async throws -> Void
    ) async throws {
      let bench = try Bench()
      let release = Event()
      try await RawTLSServer.answering(identity: bench.identity) { request in
        if request.target != "/quick" { await release.wait() }
        return TestAnswer(text: request.target)
      } during: { server in
        defer { release.fire() }
        try await bench.withTransport {
          $0.maxInFlight = 1
          $0.refusesHopeless = true
          $0.http2 = false
        } _: { transport in
          let first = await transport.outcome(.get("\(server.origin)/first"), within: .milliseconds(500))
          #expect(first.error == .timedOut)
          try await body(transport, server, release)
        }
      }
    }

    private static func targets(_ server: RawTLSServer) -> [String] { server.requests.map(\.target) }

    @Test func `a request that cannot be answered in time is refused at once and never sent`() async throws {
      try await Self.running { transport, server, release in
        let held = Task { await transport.outcome(.get("\(server.origin)/held")) }
        await Load.until { transport.statistics.inFlight == 1 }
        let hopeless = await transport.outcome(.get("\(server.origin)/hopeless"), within: .milliseconds(900))
        #expect(hopeless.error == .overloaded)
        #expect(transport.statistics.refused == 1)

        // One with time enough waits, and is served.
        let patient = Task { await transport.outcome(.get("\(server.origin)/patient")) }
        await Load.until { transport.statistics.queued == 1 }
        release.fire()
        #expect(await held.value.text == "/held")
        #expect(await patient.value.text == "/patient")
        #expect(!Self.targets(server).contains("/hopeless"))
      }
    }

    @Test func `a request whose turn comes too late is not sent`() async throws {
      try await Self.running { transport, server, _ in
        let start = ContinuousClock.now
        let held = Task { await transport.outcome(.get("\(server.origin)/held"), by: start + .milliseconds(3900)) }
        await Load.until { transport.statistics.inFlight == 1 || transport.statistics.requestsEnded > 1 }
        let late = Task { await transport.outcome(.get("\(server.origin)/late"), by: start + .milliseconds(4300)) }
        #expect(await held.value.error == .timedOut)
        // On a busy machine its deadline has passed when it has its turn.
        let error = await late.value.error
        #expect(error == .overloaded || error == .timedOut)
        #expect(!Self.targets(server).contains("/late"))
      }
    }

    @Test func `a request that finds a free slot is sent whatever calls took before`() async throws {
      try await Self.running { transport, server, _ in
        for _ in 0..<3 {
          let outcome = await transport.outcome(.get("\(server.origin)/quick"), within: .milliseconds(490))
          #expect(outcome.error != .overloaded)
        }
        #expect(transport.statistics.refused == 0)
      }
    }

    @Test func `requests without a place are counted as refused`() async throws {
      try await Bench.withSilentServer {
        $0.maxInFlight = 1
        $0.maxQueued = 0
      } _: { transport, server in
        let held = Task { await transport.outcome(.get(server.origin)) }
        await Load.until { transport.statistics.inFlight == 1 }
        for _ in 0..<3 { #expect(await transport.outcome(.get(server.origin)).error == .overloaded) }
        #expect(transport.statistics.refused == 3)
        held.cancel()
        #expect(await held.value.error == .cancelled)
      }
    }
  }
}
