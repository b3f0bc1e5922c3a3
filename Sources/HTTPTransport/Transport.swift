internal import CCurl

/// Sends one HTTP request and returns the complete response.
///
/// An implementation never follows a redirect, never retries and never decompresses: each would hide from the caller
/// how often, where to and how much was really sent.
package protocol Transport: Sendable {
  /// - Parameter deadline: when the response has to be complete; the wait for a free slot counts.
  /// - Throws: `TransportError`, and nothing else. Cancelling the task ends the transfer at once with `.cancelled`.
  func send(
    _ request: TransportRequest, deadline: ContinuousClock.Instant
  ) async throws(TransportError) -> TransportResponse
}

package struct TransportRequest: Sendable {
  /// The request methods that the service uses (RFC 9110, section 9; RFC 5789).
  package enum Method: String, Sendable {
    case get = "GET"
    case post = "POST"
    case put = "PUT"
    case patch = "PATCH"
    case delete = "DELETE"
  }

  package var method: Method
  package var url: String
  package var headers: [TransportHeader]
  package var body: [UInt8]
  /// The most bytes of a response's body; one more ends the transfer with `.tooLarge`.
  package var responseBodyLimit: Int
  /// Whether the caller reads the body. Where nobody does, status and headers are the response: a body that is too long,
  /// breaks off or lasts beyond the deadline does not count.
  package var readsBody = true

  package init(
    method: Method, url: String, headers: [TransportHeader] = [], body: [UInt8] = [], responseBodyLimit: Int
  ) {
    self.method = method
    self.url = url
    self.headers = headers
    self.body = body
    self.responseBodyLimit = responseBodyLimit
  }
}

/// A header field. Names are case-insensitive (RFC 9110, section 5.1).
package struct TransportHeader: Hashable, Sendable {
  package var name: String
  package var value: String

  package init(_ name: String, _ value: String) {
    self.name = name
    self.value = value
  }
}

package struct TransportResponse: Sendable {
  package var status: Int
  package var headers: [TransportHeader]
  package var body: [UInt8]

  package init(status: Int, headers: [TransportHeader] = [], body: [UInt8] = []) {
    self.status = status
    self.headers = headers
    self.body = body
  }

  /// The first header with this name; names are case-insensitive (RFC 9110, section 5.1).
  package func header(_ name: String) -> String? {
    headers.first { $0.name.utf8.count == name.utf8.count && $0.name.lowercased() == name.lowercased() }?.value
  }

  /// The pause that the response asks for by `Retry-After`: whole seconds, or a date in any of HTTP's three forms (RFC 9110,
  /// sections 10.2.3 and 5.6.7).
  ///
  /// - Parameter now: seconds since 1970; without it a date counts from the response's own `Date`.
  /// - Returns: zero for a date that has passed; `nil` for a text that is neither.
  package func retryAfter(at now: Int64? = nil) -> Duration? {
    guard let text = header("Retry-After"), (1...64).contains(text.utf8.count) else { return nil }
    if text.utf8.allSatisfy({ (0x30...0x39).contains($0) }) {
      return text.utf8.count <= 9 ? Int64(text).map { .seconds($0) } : nil
    }
    guard let moment = Self.seconds(text), let now = now ?? header("Date").flatMap(Self.seconds), now >= 0 else {
      return nil
    }
    return .seconds(max(moment - now, 0))
  }

  /// Seconds since 1970 of a date in any of HTTP's forms.
  private static func seconds(_ date: String) -> Int64? {
    let moment = Int64(curl_getdate(date, nil))
    return moment >= 0 ? moment : nil
  }
}

package enum TransportError: Error, Hashable, Sendable {
  /// The URL or a header cannot be sent as written.
  case invalidRequest(String)
  case resolve
  /// No connection: refused, unreachable.
  case connect
  /// The peer's certificate was refused, or the handshake failed.
  case tls(String)
  case timedOut
  /// The response's body or headers exceeded the limit, in bytes.
  case tooLarge(limit: Int)
  /// The connection ended during the response: a reset, or fewer bytes than announced.
  case reset
  /// The response is not HTTP, or incomplete.
  case protocolViolation(String)
  /// Too many requests are in flight and queued; nothing was sent.
  case overloaded
  case cancelled
  case shutDown
  /// Any other failure, by libcurl's error code.
  case other(code: Int)

  /// The host's addresses are not of the public Internet, and the transport connects to no others.
  package static let privateAddress = TransportError.invalidRequest("the host has no address of the public Internet")
}
