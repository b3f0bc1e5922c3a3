import HTTPTypes

extension HTTPFields {
  /// Whether a request has no content (RFC 9112, section 6.3). Many clients name a media type all the same.
  var isBodiless: Bool { self[.transferEncoding] == nil && (self[.contentLength] ?? "0") == "0" }

  /// The `Idempotency-Key` of a request: one word of 1 to 128 printable ASCII characters.
  /// https://datatracker.ietf.org/doc/draft-ietf-httpapi-idempotency-key-header/
  func idempotencyKey() throws(Problem) -> String? {
    let values = self[values: .idempotencyKey]
    guard let key = values.first else { return nil }
    guard values.count == 1, Self.isIdempotencyKey(key) else {
      throw Problem(.malformedRequest, "'Idempotency-Key' has to be one word of 1 to 128 printable ASCII characters.")
    }
    return key
  }

  static func isIdempotencyKey(_ text: String) -> Bool {
    (1...128).contains(text.utf8.count) && text.utf8.allSatisfy { (0x21...0x7e).contains($0) }
  }
}

// Constants that are valid field names.
// swift-format-ignore: NeverForceUnwrap
extension HTTPField.Name {
  static let countersignClient = HTTPField.Name("Countersign-Client")!
  static let crossOriginOpenerPolicy = HTTPField.Name("Cross-Origin-Opener-Policy")!
  static let forwarded = HTTPField.Name("Forwarded")!
  static let host = HTTPField.Name("Host")!
  static let idempotencyKey = HTTPField.Name("Idempotency-Key")!
  static let permissionsPolicy = HTTPField.Name("Permissions-Policy")!
  static let referrerPolicy = HTTPField.Name("Referrer-Policy")!
  static let requestID = HTTPField.Name("X-Request-Id")!
  static let revenueCatRequestTime = HTTPField.Name("X-RevenueCat-Request-Time")!
  static let revenueCatSignature = HTTPField.Name("X-RevenueCat-Webhook-Signature")!
  static let xForwardedFor = HTTPField.Name("X-Forwarded-For")!
  static let xFrameOptions = HTTPField.Name("X-Frame-Options")!
  static let xPlatform = HTTPField.Name("X-Platform")!
}
