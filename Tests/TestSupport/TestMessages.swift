/// A request as the test server read it.
package struct TestRequest: Sendable {
  /// The number of the connection it came on, from 1.
  package let connection: Int
  package let method: String
  /// Path and query, as sent.
  package let target: String
  /// Names as sent; in the order sent.
  package let headers: [(name: String, value: String)]
  package let body: [UInt8]

  package var text: String { String(decoding: body, as: UTF8.self) }

  /// The first header of this name, whatever its case.
  package func header(_ name: String) -> String? {
    headers.first { $0.name.lowercased() == name.lowercased() }?.value
  }

  /// Takes one request off the front of `bytes`; `nil` when it is not complete yet.
  ///
  /// Knows Content-Length only, which is what the client under test sends.
  static func parse(_ bytes: [UInt8], connection: Int) -> (request: TestRequest, length: Int)? {
    guard let headEnd = bytes.firstRange(of: Array("\r\n\r\n".utf8)) else { return nil }
    let lines = String(decoding: bytes[..<headEnd.lowerBound], as: UTF8.self).split(separator: "\r\n")
    guard let first = lines.first else { return nil }
    let start = first.split(separator: " ")
    guard start.count == 3 else { return nil }
    let headers = lines.dropFirst().map { line in
      let parts = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
      return (
        name: String(parts[0]), value: parts.count > 1 ? String(parts[1].drop { $0 == " " }) : ""
      )
    }
    let announced = headers.first { $0.name.lowercased() == "content-length" }.flatMap { Int($0.value) } ?? 0
    let end = headEnd.upperBound + announced
    guard bytes.count >= end else { return nil }
    let request = TestRequest(
      connection: connection, method: String(start[0]), target: String(start[1]), headers: headers,
      body: Array(bytes[headEnd.upperBound..<end]))
    return (request, end)
  }
}

/// The answer of the test server; Content-Length is added.
package struct TestAnswer: Sendable {
  package var status: Int
  package var headers: [(name: String, value: String)]
  package var body: [UInt8]
  /// Close the connection after this answer (and say so).
  package var closes: Bool

  package init(
    status: Int = 200, headers: [(name: String, value: String)] = [], body: [UInt8] = [], closes: Bool = false
  ) {
    self.status = status
    self.headers = headers
    self.body = body
    self.closes = closes
  }

  package init(status: Int = 200, headers: [(name: String, value: String)] = [], text: String, closes: Bool = false) {
    self.init(status: status, headers: headers, body: Array(text.utf8), closes: closes)
  }

  package static func json(_ text: String, status: Int = 200) -> TestAnswer {
    TestAnswer(status: status, headers: [("Content-Type", "application/json")], text: text)
  }

  /// The answer on the wire, HTTP/1.1.
  package var bytes: [UInt8] {
    var head = "HTTP/1.1 \(status) -\r\n"
    for header in headers { head += "\(header.name): \(header.value)\r\n" }
    if status != 204 && status != 304 { head += "Content-Length: \(body.count)\r\n" }
    if closes { head += "Connection: close\r\n" }
    return Array((head + "\r\n").utf8) + body
  }
}
