import COpenSSL

/// A public key on P-256 (`EVP_PKEY *`), which tells whether it made a signature.
///
/// `@unchecked Sendable`: never changed after `init`; OpenSSL counts its references atomically, and each signature is
/// checked in a context that belongs to the call.
final class ES256PublicKey: @unchecked Sendable {
  private let key: OpaquePointer

  /// `nil` when the certificate has a key of another kind.
  init?(of certificate: Certificate) {
    defer { ERR_clear_error() }
    guard let key = X509_get_pubkey(certificate.pointer) else { return nil }
    guard ES256Signature.isKey(key) else {
      EVP_PKEY_free(key)
      return nil
    }
    self.key = key
  }

  deinit { EVP_PKEY_free(key) }

  /// - Parameter signature: as JWS writes it; anything but 64 octets was not made by it.
  func hasMade(_ signature: [UInt8], over bytes: [UInt8]) -> Bool {
    defer { ERR_clear_error() }
    guard let der = ES256Signature.der(fromRaw: signature), let context = EVP_MD_CTX_new() else { return false }
    defer { EVP_MD_CTX_free(context) }
    guard EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1 else { return false }
    return EVP_DigestVerify(context, der, der.count, bytes, bytes.count) == 1
  }
}
