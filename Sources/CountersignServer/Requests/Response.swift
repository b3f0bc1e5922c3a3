import HTTPTypes
import NIOCore

/// The answer to a request.
struct Response: Sendable {
  enum Body: Sendable {
    case bytes(ByteBuffer)
    /// Written as it is read, for what is too large to be held.
    case stream(@Sendable (any BodyWriter) async throws -> Void)
  }

  var status: HTTPResponse.Status
  var headers: HTTPFields
  var body: Body

  init(status: HTTPResponse.Status, headers: HTTPFields = [:], body: Body = .bytes(ByteBuffer())) {
    (self.status, self.headers, self.body) = (status, headers, body)
    if case .bytes(let bytes) = body { self.headers[.contentLength] = String(bytes.readableBytes) }
  }
}

/// The end of a connection that takes the parts of a body.
protocol BodyWriter: Sendable {
  /// Writes a part, and waits while the peer takes none.
  func write(_ bytes: ByteBuffer) async throws
}

/// A handler's answer to a request: at once, from memory, or after a wait.
enum Reply: Sendable {
  case now(Response)
  case later(@Sendable () async throws -> Response)
}

extension ByteBuffer {
  /// Writes the head of an answer (RFC 9112, sections 4 and 6).
  ///
  /// - Parameter inChunks: whether the peer knows chunks. Otherwise a body of unknown length ends with the connection.
  /// - Returns: whether the body has to follow in chunks.
  mutating func write(headOf response: Response, inChunks: Bool) -> Bool {
    let status = response.status
    writeStaticString("HTTP/1.1 ")
    writeString(String(status.code))
    writeStaticString(" ")
    writeString(status.reasonPhrase)
    writeStaticString("\r\n")
    let hasBody = status.kind != .informational && status != .noContent && status != .notModified
    var isChunked = hasBody && inChunks
    for field in response.headers {
      if field.name == .contentLength {
        guard hasBody else { continue }
        isChunked = false
      }
      writeString(field.name.rawName)
      writeStaticString(": ")
      writeString(field.value)
      writeStaticString("\r\n")
    }
    writeStaticString(isChunked ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n")
    return isChunked
  }
}
