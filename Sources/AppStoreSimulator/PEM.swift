import COpenSSL

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
