import COpenSSL

/// A public key and a digest, made ready to check signatures: `EVP_PKEY_CTX *`.
///
/// `@unchecked Sendable`: the context is never used itself, only copied, which reads it and counts references
/// atomically; each signature is checked in a copy that belongs to the call.
final class SignatureContext: @unchecked Sendable {
  private let ready: OpaquePointer
  private let digest: DigestAlgorithm

  /// - Parameter key: `EVP_PKEY *`, which the context shares. An RSA key is used with PKCS#1 v1.5.
  /// - Returns: `nil` when the key cannot check signatures.
  init?(key: OpaquePointer, digest: DigestAlgorithm) {
    guard let context = EVP_PKEY_CTX_new(key, nil) else {
      ERR_clear_error()
      return nil
    }
    ready = context
    self.digest = digest
    let isRSA = EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA
    guard EVP_PKEY_verify_init(context) == 1,
      !isRSA || EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1,
      EVP_PKEY_CTX_set_signature_md(context, digest.pointer) == 1
    else {
      ERR_clear_error()
      // deinit frees the context: all properties are set.
      return nil
    }
  }

  deinit { EVP_PKEY_CTX_free(ready) }

  /// - Parameter signature: in OpenSSL's form: of ECDSA in DER.
  func hasMade(_ signature: UnsafeBufferPointer<UInt8>, over content: UnsafeBufferPointer<UInt8>) -> Bool {
    guard let context = EVP_PKEY_CTX_dup(ready) else {
      ERR_clear_error()
      return false
    }
    defer { EVP_PKEY_CTX_free(context) }
    let isIntact = digest.withDigest(of: content) { digest in
      guard let digest else { return false }
      return EVP_PKEY_verify(context, signature.baseAddress, signature.count, digest.baseAddress, digest.count) == 1
    }
    if !isIntact { ERR_clear_error() }
    return isIntact
  }
}
