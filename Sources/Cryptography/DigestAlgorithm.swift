import COpenSSL

/// A digest algorithm (`EVP_MD *`), looked up once: OpenSSL's `EVP_sha256()` looks it up anew, under a lock, at each use.
///
/// `@unchecked Sendable`: never changed after `init`, and each digest is made in a context that belongs to the call.
package final class DigestAlgorithm: @unchecked Sendable {
  package static let sha1 = DigestAlgorithm("SHA1")
  package static let sha256 = DigestAlgorithm("SHA256")

  /// Lent to the other files of this module; valid as long as this object. `nil` where libcrypto does not offer it.
  let pointer: OpaquePointer?

  private init(_ name: String) { pointer = EVP_MD_fetch(nil, name, nil) }

  deinit { EVP_MD_free(pointer) }

  /// Lends the digest of `bytes`, or nothing when libcrypto cannot make it: out of memory, or without its provider.
  func withDigest<Result>(
    of bytes: UnsafeBufferPointer<UInt8>, _ body: (UnsafeBufferPointer<UInt8>?) -> Result
  ) -> Result {
    withUnsafeTemporaryAllocation(of: UInt8.self, capacity: Int(EVP_MAX_MD_SIZE)) { digest in
      var length: UInt32 = 0
      guard let pointer, EVP_Digest(bytes.baseAddress, bytes.count, digest.baseAddress, &length, pointer, nil) == 1,
        Int(length) <= digest.count
      else { return body(nil) }
      return body(UnsafeBufferPointer(rebasing: digest.prefix(Int(length))))
    }
  }
}
