import HTTPTransport
import Synchronization
import Testing
import TestSupport

extension HTTPTransportTests {
  @Suite struct Connections {
    private let bench: Bench

    init() throws { bench = try Bench() }

    @Test func `requests one after another share one connection`() async throws {
      try await RawTLSServer.answering(identity: bench.identity) {
        TestAnswer(text: $0.text)
      } during: { server in
        try await bench.withTransport { transport in
          for number in 1...20 {
            #expect(await transport.outcome(.post(server.origin, "\(number)")).text == "\(number)")
          }
          #expect(transport.statistics.connectionsOpened == 1)
          #expect(transport.statistics.transfersCompleted == 20)
          #expect(transport.statistics.peakInFlight == 1)
        }
        #expect(server.connectionsAccepted == 1)
      }
    }

    @Test func `the bytes on the wire are those of the request, and nothing else`() async throws {
      try await RawTLSServer.answering(identity: bench.identity) { _ in
        TestAnswer(status: 204)
      } during: { server in
        try await bench.withTransport({ $0.userAgent = "agent/1" }) { transport in
          for method in [TransportRequest.Method.get, .post, .patch, .delete] {
            let body = method == .get || method == .delete ? [] : Array("{}".utf8)
            let response = try await transport.send(
              TransportRequest(
                method: method, url: server.origin + "/a/../b?c=d",
                headers: [.init("X-One", "1"), .init("X-None", "")],
                body: body, responseBodyLimit: 0))
            #expect(response.status == 204)
          }
        }
        let requests = server.requests
        #expect(requests.map(\.method) == ["GET", "POST", "PATCH", "DELETE"])
        for request in requests {
          #expect(request.target == "/a/../b?c=d")
          let names = Set(request.headers.map { $0.name.lowercased() })
          let framing: Set<String> = request.method == "POST" || request.method == "PATCH" ? ["content-length"] : []
          #expect(names == Set(["host", "user-agent", "accept", "x-one", "x-none"]).union(framing))
          #expect(request.header("User-Agent") == "agent/1")
          #expect(request.header("X-None") == "")
          #expect(request.body == (framing.isEmpty ? [] : Array("{}".utf8)))
        }
      }
    }

    @Test func `a long body arrives whole and comes back whole`() async throws {
      let body = (0..<3_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31) }
      try await RawTLSServer.running(identity: bench.identity) { connection in
        var count = 0
        // The head is small; what matters is how much follows, so the bytes are counted rather than parsed.
        while count < body.count, let bytes = await connection.read() { count += bytes.count }
        try await connection.write(TestAnswer(body: body))
        await connection.waitForClose()
      } during: { server in
        try await bench.withTransport { transport in
          let response = try await transport.send(
            TransportRequest(method: .post, url: server.origin, body: body, responseBodyLimit: body.count))
          #expect(response.body == body)
        }
      }
    }

    /// Those of a burst that find it full open one each.
    @Test(arguments: [(32, 1...1), (80, 3...49)])
    func `32 concurrent requests share an HTTP/2 connection`(count: Int, connections: ClosedRange<Int>) async throws {
      let turnstile = Turnstile(count)
      try await HTTP2Server.running(identity: bench.identity) { _, body in
        // Nobody is answered before all have arrived: they are under way at the same time.
        turnstile.pass()
        await turnstile.open.wait()
        return body
      } during: { server in
        try await bench.withTransport({ $0.maxInFlight = count }) { transport in
          try await withThrowingTaskGroup(of: Bool.self) { group in
            for number in 0..<count {
              group.addTask { try await transport.send(.post(server.origin, "\(number)")).text == "\(number)" }
            }
            for try await isRight in group { #expect(isRight) }
          }
          #expect(connections.contains(transport.statistics.connectionsOpened))
          #expect(transport.statistics.peakInFlight == count)
        }
        #expect(connections.contains(server.connectionsAccepted))
      }
    }

    /// A host without TLS never multiplexes: there is nothing to learn from its first answer, which may be long in coming.
    @Test func `requests to a host without TLS do not wait for the first answer`() async throws {
      let turnstile = Turnstile(2)
      try await RawTLSServer.answering(identity: nil) { request in
        turnstile.pass()
        await turnstile.open.wait()
        return TestAnswer(text: request.text)
      } during: { server in
        try await bench.withTransport({ $0.allowedSchemes = [.http, .https] }) { transport in
          async let first = transport.send(.post(server.origin, "one"), deadline: .now + .seconds(60)).text
          async let second = transport.send(.post(server.origin, "two"), deadline: .now + .seconds(60)).text
          let answers = try await [first, second]
          #expect(answers == ["one", "two"])
        }
      }
    }

    @Test func `cancelling an HTTP/2 request resets its stream and leaves the connection`() async throws {
      let received = Event()
      let never = Event()
      try await HTTP2Server.running(identity: bench.identity) { path, _ in
        guard path == "/stall" else { return "fine" }
        received.fire()
        await never.wait()
        return ""
      } during: { server in
        try await bench.withTransport { transport in
          let stalled = Task { await transport.outcome(.get(server.origin + "/stall")) }
          await received.wait()
          stalled.cancel()
          #expect(await stalled.value.error == .cancelled)
          #expect(await transport.outcome(.get(server.origin)).text == "fine")
          await server.streamReset.wait()
          #expect(transport.statistics.connectionsOpened == 1)
        }
        never.fire()
      }
    }

    @Test func `cancelling closes the HTTP/1.1 connection and frees the slot`() async throws {
      let received = Event()
      let closed = Event()
      try await RawTLSServer.running(identity: bench.identity) { connection in
        guard let request = await connection.readRequest() else { return }
        if request.target == "/stall" {
          received.fire()
          await connection.waitForClose()
          closed.fire()
        } else {
          try await connection.write(TestAnswer(text: "fine"))
          await connection.waitForClose()
        }
      } during: { server in
        try await bench.withTransport({ $0.maxInFlight = 1 }) { transport in
          let stalled = Task { await transport.outcome(.get(server.origin + "/stall")) }
          await received.wait()
          stalled.cancel()
          #expect(await stalled.value.error == .cancelled)
          #expect(transport.statistics.inFlight == 0)
          await closed.wait()
          #expect(await transport.outcome(.get(server.origin)).text == "fine")
        }
      }
    }

    @Test func `a task cancelled beforehand sends nothing`() async throws {
      try await RawTLSServer.answering(identity: bench.identity) { _ in
        TestAnswer()
      } during: { server in
        try await bench.withTransport { transport in
          let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            return await transport.outcome(.get(server.origin))
          }
          #expect(await task.value.error == .cancelled)
        }
        #expect(server.connectionsAccepted == 0)
      }
    }

    @Test func `a body is not sent a second time when a kept connection dies under it`() async throws {
      let seen = Turnstile(2)
      try await RawTLSServer.running(identity: bench.identity) { connection in
        while await connection.readRequest() != nil {
          seen.pass()
          if connection.number == 1, seen.isOpen { return await connection.cut() }
          try await connection.write(TestAnswer(text: "fine"))
        }
      } during: { server in
        try await bench.withTransport { transport in
          #expect(await transport.outcome(.post(server.origin, "one")).text == "fine")
          #expect(await transport.outcome(.post(server.origin, "two")).error == .reset)
          #expect(seen.passed == 2)
          #expect(await transport.outcome(.post(server.origin, "three")).text == "fine")
        }
      }
    }

    /// `mute` connections are taken, and their handshake is never answered: to say "no connection" there would mean that
    /// nothing was sent.
    @Test(arguments: [TransportRequest.Method.post, .patch, .delete], [[], [2]] as [Set<Int>])
    func `no request but a GET is sent a second time, and the caller is told that it was sent`(
      _ method: TransportRequest.Method, mute: Set<Int>
    ) async throws {
      let seen = Turnstile(2)
      try await RawTLSServer.running(identity: bench.identity, mute: mute) { connection in
        if mute.contains(connection.number) { return await connection.waitForClose() }
        while await connection.readRequest() != nil {
          seen.pass()
          if connection.number == 1, seen.isOpen { return await connection.cut() }
          try await connection.write(TestAnswer(text: "fine"))
        }
      } during: { server in
        try await bench.withTransport({ $0.connectTimeout = .seconds(mute.isEmpty ? 60 : 5) }) { transport in
          let request = TransportRequest(method: method, url: server.origin, responseBodyLimit: 100)
          #expect(await transport.outcome(request).text == "fine")
          #expect(await transport.outcome(request).error == .reset)
          #expect(seen.passed == 2)
        }
      }
    }

    @Test(arguments: 0..<4)
    func `a request that meets a connection just closed arrives once, or fails`(_ round: Int) async throws {
      let arrived = Mutex<[String]>([])
      try await RawTLSServer.running(identity: bench.identity) { connection in
        // Answers once and closes: the next request may meet it before the client knows.
        guard let request = await connection.readRequest() else { return }
        arrived.withLock { $0.append(request.text) }
        try await connection.write(TestAnswer(text: "fine"))
        if round.isMultiple(of: 2) { await connection.cut() }
      } during: { server in
        try await bench.withTransport { transport in
          for number in 0..<10 {
            let outcome = await transport.outcome(.post(server.origin, "\(number)"))
            let times = arrived.withLock { $0.count { $0 == "\(number)" } }
            #expect(times <= 1)
            if outcome.text == "fine" { #expect(times == 1) } else { #expect(outcome.error == .reset) }
          }
        }
      }
    }

    @Test func `an HTTP/2 request is not sent a second time when its connection ends`() async throws {
      let seen = Turnstile(1)
      try await HTTP2Server.running(identity: bench.identity) { path, _ in
        guard path == "/end" else { return "fine" }
        seen.pass()
        return nil
      } during: { server in
        try await bench.withTransport { transport in
          #expect(await transport.outcome(.post(server.origin, "one")).text == "fine")
          #expect(await transport.outcome(.post(server.origin + "/end", "two")).error == .reset)
          #expect(seen.passed == 1)
          #expect(await transport.outcome(.post(server.origin, "three")).text == "fine")
        }
      }
    }

    /// They wait for the first connection to tell whether the host multiplexes; it must not take them down with it.
    @Test(arguments: [TransportError.cancelled, .timedOut, .connect])
    func `requests that wait for another's handshake go on when that one ends`(_ end: TransportError) async throws {
      try await RawTLSServer.running(identity: bench.identity, mute: [1]) { connection in
        if connection.number == 1 { return await connection.waitForClose() }
        while await connection.readRequest() != nil { try await connection.write(TestAnswer(text: "fine")) }
      } during: { server in
        try await bench.withTransport {
          $0.connectTimeout = end == .connect ? .seconds(3) : .seconds(100)
        } _: { transport in
          let first = Task {
            await transport.outcome(.get(server.origin), within: end == .timedOut ? .seconds(3) : .seconds(60))
          }
          await Load.until { server.connectionsAccepted == 1 }
          let others = (0..<5).map { _ in Task { await transport.outcome(.get(server.origin), within: .seconds(60)) } }
          await Load.until { transport.statistics.inFlight == 6 || transport.statistics.requestsEnded > 0 }
          if end == .cancelled { first.cancel() }
          #expect(await first.value.error == end)
          for other in others { #expect(await other.value.text == "fine") }
        }
      }
    }
  }
}
