import Cryptography
import HTTPTypes
import Hummingbird
import NIOCore
import Validation

/// The answer to a read with what it rests on, so that it can be sent again.
struct CachedAnswer: Sendable {
  let body: ByteBuffer
  private let tag: String
  private let headers: HTTPFields
  let validity: Standing.Validity

  init(_ body: ByteBuffer, _ validity: Standing.Validity) {
    self.body = body
    self.validity = validity
    tag = Self.tag(of: body)
    let headers: HTTPFields = [
      .eTag: tag, .cacheControl: "private, no-cache", .vary: "Authorization", .contentType: "application/json",
    ]
    self.headers = headers + CommonHeaders.ofDocuments
  }

  func response(to request: Request) -> Response { Self.response(body, tag, headers, to: request) }

  /// With a strong entity tag over the bytes, and 304 where the caller has them already (RFC 9110, section 13.1.2).
  static func response(_ body: ByteBuffer, _ tag: String, _ headers: HTTPFields, to request: Request) -> Response {
    let known = request.headers[values: .ifNoneMatch].flatMap { $0.split(separator: ",") }
    if known.contains(where: { matches(tag, $0) }) {
      var headers = headers
      headers[.contentType] = nil
      return Response(status: .notModified, headers: headers)
    }
    return Response(status: .ok, headers: headers, body: .bytes(body))
  }

  static func tag(of body: ByteBuffer) -> String {
    "\"\(SHA256Digest(of: body.readableBytesView).hexadecimal.prefix(24))\""
  }

  private static func matches(_ tag: String, _ candidate: Substring) -> Bool {
    var candidate = candidate.drop { $0 == " " }
    while candidate.last == " " { candidate.removeLast() }
    if candidate == "*" { return true }
    return (candidate.hasPrefix("W/") ? candidate.dropFirst(2) : candidate) == tag[...]
  }
}
