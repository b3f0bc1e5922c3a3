import COpenSSL

/// A public key on P-256 that checks signatures with SHA-256 (`ES256`, RFC 7518, section 3.4).
package struct ES256PublicKey: Sendable {
  private let context: SignatureContext

  /// - Parameter key: `EVP_PKEY *`, which the new value shares.
  /// - Returns: `nil` for a key of another kind or curve.
  package init?(key: OpaquePointer) {
    guard ES256Signature.isKey(key), let context = SignatureContext(key: key, digest: .sha256) else { return nil }
    self.context = context
  }

  /// A key from its point, two numbers of 32 octets, big-endian.
  ///
  /// - Returns: `nil` when the point is not on the curve, or a number has another length (RFC 7518, section 6.2.1.2).
  package init?(x: [UInt8], y: [UInt8]) {
    guard x.count == 32, y.count == 32, let key = SubjectPublicKeyInfo.p256(x: x, y: y).read() else { return nil }
    defer { EVP_PKEY_free(key) }
    self.init(key: key)
  }

  /// - Parameter signature: as JWS writes it; anything but 64 octets was not made by it.
  package func hasMade(_ signature: [UInt8], over bytes: [UInt8]) -> Bool {
    guard let der = ES256Signature.der(fromRaw: signature) else { return false }
    return der.withUnsafeBufferPointer { der in
      bytes.withUnsafeBufferPointer { context.hasMade(der, over: $0) }
    }
  }
}
