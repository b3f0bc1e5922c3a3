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

/// Text in PEM that OpenSSL reads or writes.
enum PEM {
  /// - Parameter read: one of `PEM_read_bio_…`.
  static func read(
    _ text: String, _ call: String, _ read: (OpaquePointer) -> OpaquePointer?
  ) throws(OpenSSLFailure) -> OpaquePointer {
    let bytes = Array(text.utf8)
    let object = bytes.withUnsafeBytes { octets -> OpaquePointer? in
      guard let bio = BIO_new_mem_buf(octets.baseAddress, Int32(octets.count)) else { return nil }
      defer { BIO_free(bio) }
      return read(bio)
    }
    return try OpenSSLFailure.check(object, call)
  }

  /// - Parameter write: one of `PEM_write_bio_…`.
  static func write(_ call: String, _ write: (OpaquePointer) -> Int32) throws(OpenSSLFailure) -> String {
    let bio = try OpenSSLFailure.check(BIO_new(BIO_s_mem()), "BIO_new")
    defer { BIO_free(bio) }
    try OpenSSLFailure.check(write(bio), call)
    var octets: UnsafeMutablePointer<CChar>?
    let length = countersign_BIO_get_mem_data(bio, &octets)
    guard length > 0, let octets else { throw OpenSSLFailure("BIO_get_mem_data") }
    return String(decoding: UnsafeRawBufferPointer(start: octets, count: length), as: UTF8.self)
  }
}

/// Digests of bytes, by libcrypto.
enum Digest {
  static func sha1(_ bytes: [UInt8]) -> [UInt8] { digest(bytes, count: 20, SHA1) }

  static func sha256(_ bytes: [UInt8]) -> [UInt8] { digest(bytes, count: 32, SHA256) }

  private static func digest(
    _ bytes: [UInt8], count: Int,
    _ function: (UnsafePointer<UInt8>?, Int, UnsafeMutablePointer<UInt8>?) -> UnsafeMutablePointer<UInt8>?
  ) -> [UInt8] {
    var digest = [UInt8](repeating: 0, count: count)
    // A failure cannot depend on the bytes: libcrypto is out of memory or has lost its provider.
    guard function(bytes, bytes.count, &digest) != nil else { preconditionFailure("libcrypto cannot make a digest") }
    return digest
  }
}
