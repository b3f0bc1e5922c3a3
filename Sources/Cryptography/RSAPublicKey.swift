import COpenSSL

/// A public RSA key that checks signatures with PKCS#1 v1.5 and one digest (RFC 8017, section 8.2).
package struct RSAPublicKey: Sendable {
  private let context: SignatureContext

  /// - Parameter key: `EVP_PKEY *`, which the new value shares.
  /// - Returns: `nil` for a key of another kind.
  package init?(key: OpaquePointer, digest: DigestAlgorithm) {
    guard EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA, let context = SignatureContext(key: key, digest: digest) else {
      return nil
    }
    self.context = context
  }

  /// A key from its numbers, big-endian: of 2048 to 8192 bits, with an odd exponent of 2 to 33 bits.
  ///
  /// Smaller moduli can be factored (RFC 7518, section 3.3, forbids them). Larger numbers make each check expensive, and
  /// no issuer uses them.
  package init?(modulus: [UInt8], exponent: [UInt8], digest: DigestAlgorithm) {
    let modulus = Array(modulus.drop { $0 == 0 })
    let exponent = Array(exponent.drop { $0 == 0 })
    guard (2_048...8_192).contains(Self.bitWidth(modulus)), Self.isOdd(modulus),
      (2...33).contains(Self.bitWidth(exponent)), Self.isOdd(exponent),
      let key = SubjectPublicKeyInfo.rsa(modulus: modulus, exponent: exponent).read()
    else { return nil }
    defer { EVP_PKEY_free(key) }
    self.init(key: key, digest: digest)
  }

  /// A signature of another length than the modulus gives `false`.
  package func hasMade(_ signature: ArraySlice<UInt8>, over bytes: ArraySlice<UInt8>) -> Bool {
    signature.withUnsafeBufferPointer { signature in
      bytes.withUnsafeBufferPointer { context.hasMade(signature, over: $0) }
    }
  }

  /// - Parameter number: without leading zeros.
  private static func bitWidth(_ number: [UInt8]) -> Int { 8 * number.count - (number.first?.leadingZeroBitCount ?? 0) }

  private static func isOdd(_ number: [UInt8]) -> Bool { number.last.map { $0 & 1 == 1 } ?? false }
}
