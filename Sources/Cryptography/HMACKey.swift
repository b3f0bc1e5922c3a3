import COpenSSL

/// A shared secret that makes codes with HMAC-SHA-256 (RFC 2104; `HS256`, RFC 7518, section 3.2).
package struct HMACKey: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
  private let secret: [UInt8]

  package init(_ secret: [UInt8]) { self.secret = secret }

  package var description: String { "***" }
  package var debugDescription: String { "***" }
  package var customMirror: Mirror { Mirror(self, children: []) }

  /// Whether this secret made the code. Compared in constant time; a code of another length gives `false`.
  package func hasMade(_ code: [UInt8], over bytes: [UInt8]) -> Bool {
    guard let expected = self.code(of: bytes) else { return false }
    return isEqualInConstantTime(expected, code)
  }

  /// The code over some bytes, of 32 bytes.
  ///
  /// - Returns: `nil` when libcrypto cannot compute it: out of memory, or without its provider.
  package func code(of bytes: [UInt8]) -> [UInt8]? {
    guard let length = Int32(exactly: secret.count) else { return nil }
    var code = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
    var count: UInt32 = 0
    guard HMAC(DigestAlgorithm.sha256.pointer, secret, length, bytes, bytes.count, &code, &count) != nil else {
      ERR_clear_error()
      return nil
    }
    return Array(code.prefix(Int(count)))
  }
}

/// Whether both are equal, in a time that does not depend on their contents, only on their lengths.
package func isEqualInConstantTime(_ first: [UInt8], _ second: [UInt8]) -> Bool {
  first.count == second.count && CRYPTO_memcmp(first, second, first.count) == 0
}
