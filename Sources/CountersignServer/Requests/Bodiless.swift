import HTTPTypes

extension HTTPFields {
  /// Whether a request has no content (RFC 9112, section 6.3). Many clients name a media type all the same.
  var isBodiless: Bool { self[.transferEncoding] == nil && (self[.contentLength] ?? "0") == "0" }
}
