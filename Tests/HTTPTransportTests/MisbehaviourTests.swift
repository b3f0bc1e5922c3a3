import Foundation
import HTTPTransport
import Testing
import TestSupport

/// One way for a server to go wrong after it has read the request, and what the caller is told.
struct Misbehaviour: Sendable, CustomTestStringConvertible {
  enum Expected: Sendable {
    case error(TransportError)
    /// A violation, whatever its words.
    case violation
    case answer(status: Int, headers: [TransportHeader] = [], body: [UInt8])
  }

  let testDescription: String
  let expected: Expected
  var limit = 4096
  var readsBody = true
  var deadline = Duration.seconds(60)
  let script: @Sendable (RawConnection) async throws -> Void

  init(
    _ description: String, _ expected: Expected, limit: Int = 4096, readsBody: Bool = true,
    deadline: Duration = .seconds(60),
    script: @escaping @Sendable (RawConnection) async throws -> Void
  ) {
    self.testDescription = description
    self.expected = expected
    self.limit = limit
    self.readsBody = readsBody
    self.deadline = deadline
    self.script = script
  }

  /// Sends this text, then ends the connection in order.
  init(_ description: String, _ expected: Expected, sends text: String, limit: Int = 4096) {
    self.init(description, expected, limit: limit) { try await $0.write(text) }
  }

  static var ends: [Misbehaviour] {
    [
      .init("closes in mid-header", .violation, sends: "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"),
      .init("closes in mid-line", .violation, sends: "HTTP/1.1 200 OK\r\nContent-Le"),
      .init("closes after an interim answer", .error(.reset), sends: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"),
      .init("closes without a word", .error(.reset)) { _ in },
      .init("dies without a word", .error(.reset)) { await $0.cut() },
      .init("resets without a word", .error(.reset)) { await $0.reset() },
      .init(
        "sends fewer bytes than announced", .error(.reset), sends: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345"),
      .init(
        "ends in mid-chunk", .error(.reset), sends: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nA\r\n12345"),
      .init(
        "ends between chunks", .error(.reset), sends: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n"
      ),
      .init("resets in mid-body", .error(.reset)) { connection in
        try await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n12345")
        await connection.reset()
      },
    ]
  }

  static var shapes: [Misbehaviour] {
    [
      .init("speaks HTTP/0.9", .violation, sends: "hello\n"),
      .init("speaks something else", .violation, sends: "220 mail.example ESMTP\r\n\r\n"),
      .init("has a header without a name", .violation, sends: "HTTP/1.1 200 OK\r\n: x\r\nContent-Length: 0\r\n\r\n"),
      .init(
        "has a header without a colon", .violation, sends: "HTTP/1.1 200 OK\r\nnonsense\r\nContent-Length: 0\r\n\r\n"),
      .init(
        "announces two lengths", .violation,
        sends: "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nabc"),
      .init("announces a negative length", .violation, sends: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nabc"),
      .init(
        "sends interim answers first",
        .answer(status: 200, headers: [.init("Content-Length", "2")], body: Array("ok".utf8)),
        sends: "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
      .init(
        "repeats and folds headers",
        .answer(
          status: 200,
          headers: [.init("A", "1"), .init("B", "x y"), .init("A", "2"), .init("E", ""), .init("Content-Length", "0")],
          body: []),
        sends: "HTTP/1.1 200 OK\r\nA: 1\r\nB: x\r\n  y\r\nA: 2\r\nE:\r\nContent-Length: 0\r\n\r\n"),
      .init(
        "sends trailers",
        .answer(status: 200, headers: [.init("Transfer-Encoding", "chunked")], body: Array("ab".utf8)),
        sends: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\nX-Late: 1\r\n\r\n"),
      .init(
        "compresses unasked: passed through",
        .answer(
          status: 200, headers: [.init("Content-Encoding", "gzip"), .init("Content-Length", "\(zeros.count)")],
          body: zeros)
      ) {
        try await $0.write(
          Array("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: \(zeros.count)\r\n\r\n".utf8) + zeros)
      },
      // Its end is the connection's: nothing tells it from one cut short, so the caller has to judge the body.
      .init(
        "has neither length nor chunks", .answer(status: 200, body: Array("{\"a".utf8)),
        sends: "HTTP/1.1 200 OK\r\n\r\n{\"a"),
    ]
  }

  static var floods: [Misbehaviour] {
    [
      .init(
        "announces too much", .error(.tooLarge(limit: 4)), sends: "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n",
        limit: 4
      ),
      .init("sends a byte too many in chunks", .error(.tooLarge(limit: 4)), limit: 4) { connection in
        try await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n12345\r\n0\r\n\r\n")
        await connection.waitForClose()
      },
      .init(
        "fits exactly", .answer(status: 200, headers: [.init("Content-Length", "4")], body: Array("1234".utf8)),
        sends: "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\n1234", limit: 4),
      .init("sends chunks without end", .error(.tooLarge(limit: 1_000_000)), limit: 1_000_000) { connection in
        try await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        let chunk = Array("4000\r\n".utf8) + [UInt8](repeating: 0x61, count: 0x4000) + Array("\r\n".utf8)
        while true { try await connection.write(chunk) }
      },
      .init("sends a body without end or length", .error(.tooLarge(limit: 1_000_000)), limit: 1_000_000) { connection in
        try await connection.write("HTTP/1.1 200 OK\r\n\r\n")
        while true { try await connection.write([UInt8](repeating: 0x61, count: 0x4000)) }
      },
      .init(
        "announces too much that nobody reads",
        .answer(status: 201, headers: [.init("Content-Length", "5000000000")], body: []), limit: 4, readsBody: false
      ) { connection in
        try await connection.write("HTTP/1.1 201 Created\r\nContent-Length: 5000000000\r\n\r\n")
        await connection.waitForClose()
      },
      .init(
        "sends chunks without end that nobody reads",
        .answer(status: 200, headers: [.init("Transfer-Encoding", "chunked")], body: Array("12".utf8)), limit: 4,
        readsBody: false
      ) { connection in
        try await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n12\r\n")
        while true { try await connection.write("5\r\n12345\r\n") }
      },
      .init(
        "resets within a body that nobody reads",
        .answer(status: 200, headers: [.init("Content-Length", "1000")], body: Array("12345".utf8)), limit: 4_096,
        readsBody: false
      ) { connection in
        try await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n12345")
        await connection.reset()
      },
      .init("sends headers without end", .error(.tooLarge(limit: 64 * 1024))) { connection in
        try await connection.write("HTTP/1.1 200 OK\r\n")
        while true { try await connection.write("X-Flood: \(String(repeating: "a", count: 1000))\r\n") }
      },
      .init("sends a header line without end", .error(.tooLarge(limit: 64 * 1024))) { connection in
        try await connection.write("HTTP/1.1 200 OK\r\nX-Flood: ")
        while true { try await connection.write(String(repeating: "a", count: 1000)) }
      },
      .init("sends interim answers without end", .error(.tooLarge(limit: 64 * 1024))) { connection in
        while true { try await connection.write("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n") }
      },
      .init("sends trailers without end", .error(.tooLarge(limit: 64 * 1024))) { connection in
        try await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n")
        while true { try await connection.write("X-Flood: \(String(repeating: "a", count: 1000))\r\n") }
      },
      .init("hides a bomb in the transfer coding", .violation) { connection in
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
        let size = String(zeros.count, radix: 16)
        try await connection.write(Array("\(head)\(size)\r\n".utf8) + zeros + Array("\r\n0\r\n\r\n".utf8))
        await connection.waitForClose()
      },
    ]
  }

  static var stalls: [Misbehaviour] {
    [
      .init("never answers", .error(.timedOut), deadline: .milliseconds(300)) { await $0.waitForClose() },
      .init("stalls in mid-header", .error(.timedOut), deadline: .milliseconds(300)) { connection in
        try await connection.write("HTTP/1.1 200 OK\r\nContent-")
        await connection.waitForClose()
      },
      .init("stalls in mid-body", .error(.timedOut), deadline: .milliseconds(300)) { connection in
        try await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345")
        await connection.waitForClose()
      },
      // The deadline has room for the handshake on a busy machine.
      .init(
        "stalls in a body that nobody reads",
        .answer(status: 202, headers: [.init("Content-Length", "10")], body: Array("12345".utf8)),
        readsBody: false, deadline: .seconds(3)
      ) { connection in
        try await connection.write("HTTP/1.1 202 Accepted\r\nContent-Length: 10\r\n\r\n12345")
        await connection.waitForClose()
      },
      .init("drips a byte at a time", .error(.timedOut), limit: 1 << 30, deadline: .milliseconds(300)) { connection in
        try await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        while !Task.isCancelled {
          try await connection.write("a")
          try await Task.sleep(for: .milliseconds(5))
        }
      },
    ]
  }

  /// 100,000 zero bytes, compressed by gzip to 132.
  static let zeros = [UInt8](
    Data(
      base64Encoded: """
        H4sIAAAAAAACA+3BMQEAAADCoPVPbQ0PoAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\
        AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAIBXA32VEdSghgEA
        """) ?? Data())
}

extension HTTPTransportTests {
  @Suite struct Misbehaviours {
    @Test(arguments: Misbehaviour.ends + Misbehaviour.shapes + Misbehaviour.floods + Misbehaviour.stalls)
    func `a server that misbehaves cannot do harm, and the caller is told how it ended`(
      _ misbehaviour: Misbehaviour
    ) async throws {
      let bench = try Bench()
      try await RawTLSServer.running(identity: bench.identity) { connection in
        guard await connection.readRequest() != nil else { return }
        try await misbehaviour.script(connection)
      } during: { server in
        try await bench.withTransport { transport in
          let started = ContinuousClock.now
          var request = TransportRequest.get(server.origin, limit: misbehaviour.limit)
          request.readsBody = misbehaviour.readsBody
          let outcome = await transport.outcome(request, within: misbehaviour.deadline)
          switch (misbehaviour.expected, outcome) {
          case (.error(let expected), .failure(let error)):
            #expect(error == expected)
          case (.violation, .failure(.protocolViolation)):
            break
          case (.answer(let status, let headers, let body), .success(let response)):
            #expect(response.status == status)
            #expect(response.headers == headers)
            #expect(response.body == body)
          case (let expected, let outcome):
            Issue.record("expected \(expected), got \(outcome)")
          }
          #expect(started.duration(to: .now) < misbehaviour.deadline + .seconds(30))
          #expect(transport.statistics.inFlight == 0)
        }
      }
    }
  }
}
