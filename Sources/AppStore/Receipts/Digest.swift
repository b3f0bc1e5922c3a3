import COpenSSL

/// A digest (`EVP_MD *`), looked up once: OpenSSL's `EVP_sha256()` looks it up anew, under a lock, at each use.
///
/// `@unchecked Sendable`: never changed after `init`, and each digest is made in a context that belongs to the call.
final class Digest: @unchecked Sendable {
  static let sha1 = Digest("SHA1")
  static let sha256 = Digest("SHA256")

  /// Lent to the other files that speak to OpenSSL; valid as long as this object. `nil` where libcrypto does not offer it.
  let pointer: OpaquePointer?

  private init(_ name: String) { pointer = EVP_MD_fetch(nil, name, nil) }

  deinit { EVP_MD_free(pointer) }

  /// Lends the digest of `bytes`, or nothing when libcrypto cannot make it: out of memory, or without its provider.
  func withHash<Result>(of bytes: UnsafeBufferPointer<UInt8>, _ body: (UnsafeBufferPointer<UInt8>?) -> Result) -> Result
  {
    withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Int(EVP_MAX_MD_SIZE)) { hash in
      var length: UInt32 = 0
      guard let pointer, EVP_Digest(bytes.baseAddress, bytes.count, hash.baseAddress, &length, pointer, nil) == 1,
        Int(length) <= hash.count
      else { return body(nil) }
      return body(UnsafeBufferPointer(rebasing: hash.prefix(Int(length))))
    }
  }
}
