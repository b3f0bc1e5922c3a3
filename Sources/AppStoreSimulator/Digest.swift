import COpenSSL

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
