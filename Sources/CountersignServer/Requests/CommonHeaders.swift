import HTTPTypes
import Hummingbird

/// The headers of every answer: a browser takes it for what it says it is, shows it in no frame, runs nothing in it, tells no
/// other site of its address, and keeps it only where it says so. Over TLS: HTTPS only, for a year (RFC 6797).
struct CommonHeaders: Sendable {
  /// For answers that say themselves whether they may be kept.
  static let ofDocuments: HTTPFields = [
    .contentSecurityPolicy: "default-src 'none'; base-uri 'none'; frame-ancestors 'none'",
    .xContentTypeOptions: "nosniff", .referrerPolicy: "no-referrer",
  ]
  static let strictTransport = HTTPField(name: .strictTransportSecurity, value: "max-age=31536000; includeSubDomains")

  private let fields: HTTPFields

  /// - Parameter speaksTLS: whether the address that answers speaks TLS by itself.
  init(speaksTLS: Bool) {
    var fields = Self.ofDocuments
    fields[.cacheControl] = "no-store"
    if speaksTLS { fields.append(Self.strictTransport) }
    self.fields = fields
  }

  /// Adds those that an answer has not of its own.
  func mark(_ response: inout Response) {
    for field in fields where !response.headers.contains(field.name) { response.headers.append(field) }
  }
}
