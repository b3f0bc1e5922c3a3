import COpenSSL
import Cryptography

extension RSAPublicKey {
  /// The key of a certificate; `nil` when it has a key of another kind.
  init?(of certificate: Certificate, digest: DigestAlgorithm) {
    defer { ERR_clear_error() }
    guard let key = X509_get0_pubkey(certificate.pointer) else { return nil }
    self.init(key: key, digest: digest)
  }
}

extension ES256PublicKey {
  /// The key of a certificate; `nil` when it has a key of another kind.
  init?(of certificate: Certificate) {
    defer { ERR_clear_error() }
    guard let key = X509_get0_pubkey(certificate.pointer) else { return nil }
    self.init(key: key)
  }
}
