import COpenSSL

/// An RSA key that signs receipts, with one digest: a context (`EVP_PKEY_CTX *`) made ready to check signatures.
///
/// `@unchecked Sendable`: the context is never used itself, only copied, which reads it and counts references
/// atomically; each signature is checked in a copy that belongs to the call.
final class ReceiptSigningKey: @unchecked Sendable {
  private let ready: OpaquePointer
  private let digest: Digest

  /// `nil` when the key of the certificate cannot be used.
  init?(of certificate: Certificate, digest: Digest) {
    defer { ERR_clear_error() }
    guard let key = X509_get0_pubkey(certificate.pointer), let context = EVP_PKEY_CTX_new(key, nil) else { return nil }
    guard EVP_PKEY_verify_init(context) == 1, EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1,
      EVP_PKEY_CTX_set_signature_md(context, digest.pointer) == 1
    else {
      EVP_PKEY_CTX_free(context)
      return nil
    }
    ready = context
    self.digest = digest
  }

  deinit { EVP_PKEY_CTX_free(ready) }

  /// RSA with PKCS#1 v1.5.
  func hasMade(_ signature: ArraySlice<UInt8>, over content: ArraySlice<UInt8>) -> Bool {
    guard let context = EVP_PKEY_CTX_dup(ready) else {
      ERR_clear_error()
      return false
    }
    defer { EVP_PKEY_CTX_free(context) }
    let isIntact = signature.withUnsafeBufferPointer { signature in
      content.withUnsafeBufferPointer { content in
        digest.withHash(of: content) { hash in
          guard let hash else { return false }
          return EVP_PKEY_verify(context, signature.baseAddress, signature.count, hash.baseAddress, hash.count) == 1
        }
      }
    }
    if !isIntact { ERR_clear_error() }
    return isIntact
  }
}
