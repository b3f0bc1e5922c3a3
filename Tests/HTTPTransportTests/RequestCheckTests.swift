@testable import HTTPTransport
import TestSupport
import Testing

extension HTTPTransportTests {
  @Suite struct RequestChecks {
    private func refusal(of request: TransportRequest) -> String? {
      let error = #expect(throws: TransportError.self) { try PreparedRequest(request, schemes: [.https]) }
      guard case .invalidRequest(let reason) = error else { return nil }
      return reason
    }

    @Test(arguments: [
      "", "https://", "https:///path", "nonsense", "/path", "ftp://host/", "file:///etc/passwd", "http://host/",
      "gopher://host/", "https://user@host/", "https://user:word@host/", "https://:word@host/", "https://@host/",
      "https://host/a b", "https://host/\r\nX: y", "https://host/\u{0}", "https://h\u{f6}st/", "https://host:99999/",
      "HTTPS://user@host/", " https://host/", "https:/host/", "https:host/", "https://?x", "https://host\\@other/",
    ])
    func `a URL that is malformed or not allowed is refused`(_ url: String) async throws {
      try await Bench().withTransport { transport in
        guard case .invalidRequest(let reason) = await transport.outcome(.get(url)).error else {
          Issue.record("\(url) was taken")
          return
        }
        #expect(!reason.contains("host/"))
      }
    }

    @Test(arguments: [
      "https://host", "https://host:8443/a?b=c&d=%20#e", "HTTPS://host/", "https://[::1]:1/", "https://1.2.3.4/@",
    ])
    func `a well-formed URL is not refused`(_ url: String) async throws {
      // All of them are this machine: no name is looked up.
      let hosts = ["host:443", "host:8443", "1.2.3.4:443"].map { "+\($0):127.0.0.1" }
      try await Bench().withTransport({ $0.resolve = hosts }) { transport in
        if case .invalidRequest(let reason) = await transport.outcome(.get(url)).error { Issue.record("\(reason)") }
      }
    }

    @Test(arguments: [
      ("", "v"), ("a b", "v"), ("a:", "v"), ("a\r\n", "v"), ("a\u{0}", "v"), ("\u{e4}", "v"), ("a", "v\r\nB: c"),
      ("a", "v\n"), ("a", "v\u{0}"), ("a", "\u{7f}"), ("Host", "v"), ("content-length", "1"), ("Expect", "v"),
      ("Transfer-Encoding", "chunked"), ("Accept-Encoding", "gzip"), ("Connection", "close"), ("TE", "gzip"),
    ])
    func `a header that would change the message's shape is refused`(_ name: String, _ value: String) {
      var request = TransportRequest.get("https://host/")
      request.headers = [TransportHeader(name, value)]
      #expect(refusal(of: request)?.contains("\n") == false)
    }

    @Test(arguments: [-1, 0, .max]) func `a limit that makes no sense stops the start`(_ limit: Int) {
      var configuration = CurlTransport.Configuration()
      configuration.maxInFlight = limit
      #expect(throws: CurlTransport.SetupError.invalidConfiguration("maxInFlight")) {
        try CurlTransport(configuration: configuration)
      }
    }
  }

  @Suite struct Deadlines {
    @Test func `the nearest deadline of the living comes first, whatever the order of arrival`() {
      let start = ContinuousClock.now
      var heap = DeadlineHeap()
      // 7 and 101 have no common divisor: every number once, out of order.
      for step in 0..<101 { heap.insert(start + .seconds(step * 7 % 101), id: UInt64(step * 7 % 101)) }
      var order: [UInt64] = []
      while let nearest = heap.nearest(where: { $0 % 2 == 0 && !order.contains($0) }) { order.append(nearest.id) }
      #expect(order == Array(stride(from: 0, through: 100, by: 2)))
    }

    @Test func `the dead are swept out once they are the great majority`() {
      var heap = DeadlineHeap()
      for id in 0..<1000 { heap.insert(.now + .seconds(id), id: UInt64(id)) }
      heap.sweep(live: 999) { _ in true }
      #expect(heap.entries.count == 1000)
      heap.sweep(live: 2) { $0 == 5 || $0 == 700 }
      #expect(heap.entries.map(\.id).sorted() == [5, 700])
      #expect(heap.nearest { _ in true }?.id == 5)
    }
  }

  @Suite struct Stubs {
    @Test func `a stub answers in order, and a call beyond the plan fails and is told`() async throws {
      let reported = Turnstile(1)
      let stub = StubTransport(
        answers: [.success(TransportResponse(status: 201)), .failure(.reset)], onUnplanned: { _ in reported.pass() })
      #expect(await stub.outcome(.get("https://one/")).status == 201)
      #expect(await stub.outcome(.get("https://two/")).error == .reset)
      #expect(stub.answersLeft == 0 && stub.unplanned.isEmpty && reported.passed == 0)
      guard case .invalidRequest = await stub.outcome(.get("https://three/")).error else {
        Issue.record("an unplanned call was answered")
        return
      }
      #expect(stub.unplanned.map(\.url) == ["https://three/"])
      #expect(stub.requests.map(\.url) == ["https://one/", "https://two/", "https://three/"])
      #expect(reported.passed == 1)
    }
  }
}
