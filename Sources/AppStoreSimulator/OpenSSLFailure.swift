import COpenSSL

/// A call of libcrypto that failed.
struct OpenSSLFailure: Error, CustomStringConvertible {
  let call: String
  /// In OpenSSL's words.
  let reason: String

  /// Takes the reason from OpenSSL's queue of errors, and empties it.
  init(_ call: String) {
    self.call = call
    reason = ERR_reason_error_string(ERR_peek_last_error()).map { String(cString: $0) } ?? "no reason given"
    ERR_clear_error()
  }

  var description: String { "\(call) failed: \(reason)" }

  /// Throws unless the call returned 1 or more, as almost all of libcrypto does on success.
  static func check(_ code: Int32, _ call: String) throws(OpenSSLFailure) {
    guard code > 0 else { throw OpenSSLFailure(call) }
  }

  /// Throws unless the call returned an object.
  static func check(_ object: OpaquePointer?, _ call: String) throws(OpenSSLFailure) -> OpaquePointer {
    guard let object else { throw OpenSSLFailure(call) }
    return object
  }
}
