import COpenSSL

/// A private key (`EVP_PKEY *`): RSA, which signs with PKCS#1 v1.5, or on P-256.
///
/// `@unchecked Sendable`: never changed after `init`; OpenSSL counts its references atomically, and each signature is
/// made or checked in a context that belongs to the call.
final class SigningKey: @unchecked Sendable {
  enum Hash: Sendable {
    case sha1, sha256

    fileprivate var algorithm: OpaquePointer? {
      switch self {
      case .sha1: EVP_sha1()
      case .sha256: EVP_sha256()
      }
    }
  }

  /// Lent to the other files that speak to OpenSSL; valid as long as this object.
  let pointer: OpaquePointer

  init(pem: String) throws(OpenSSLFailure) {
    // OpenSSL's own callback would ask for a passphrase at the terminal.
    pointer = try PEM.read(pem, "PEM_read_bio_PrivateKey") {
      PEM_read_bio_PrivateKey($0, nil, { _, _, _, _ in -1 }, nil)
    }
  }

  /// A new key on P-256.
  init() throws(OpenSSLFailure) {
    let context = try OpenSSLFailure.check(EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil), "EVP_PKEY_CTX_new_id")
    defer { EVP_PKEY_CTX_free(context) }
    try OpenSSLFailure.check(EVP_PKEY_keygen_init(context), "EVP_PKEY_keygen_init")
    try OpenSSLFailure.check(
      EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1), "EVP_PKEY_CTX_set_ec_paramgen_curve_nid")
    var key: OpaquePointer?
    try OpenSSLFailure.check(EVP_PKEY_keygen(context, &key), "EVP_PKEY_keygen")
    pointer = try OpenSSLFailure.check(key, "EVP_PKEY_keygen")
  }

  deinit { EVP_PKEY_free(pointer) }

  /// PKCS#8, not encrypted.
  func pem() throws(OpenSSLFailure) -> String {
    try PEM.write("PEM_write_bio_PKCS8PrivateKey") {
      PEM_write_bio_PKCS8PrivateKey($0, pointer, nil, nil, 0, nil, nil)
    }
  }

  /// - Returns: the signature; of a key on P-256 in DER.
  func sign(_ bytes: [UInt8], _ hash: Hash = .sha256) throws(OpenSSLFailure) -> [UInt8] {
    let context = try OpenSSLFailure.check(EVP_MD_CTX_new(), "EVP_MD_CTX_new")
    defer { EVP_MD_CTX_free(context) }
    try OpenSSLFailure.check(EVP_DigestSignInit(context, nil, hash.algorithm, nil, pointer), "EVP_DigestSignInit")
    var length = 0
    try OpenSSLFailure.check(EVP_DigestSign(context, nil, &length, bytes, bytes.count), "EVP_DigestSign")
    var signature = [UInt8](repeating: 0, count: length)
    try OpenSSLFailure.check(EVP_DigestSign(context, &signature, &length, bytes, bytes.count), "EVP_DigestSign")
    return Array(signature.prefix(length))
  }

  /// Whether this key made a signature; a malformed one gives `false`.
  func hasMade(_ signature: [UInt8], over bytes: [UInt8], _ hash: Hash = .sha256) -> Bool {
    defer { ERR_clear_error() }
    guard let context = EVP_MD_CTX_new() else { return false }
    defer { EVP_MD_CTX_free(context) }
    guard EVP_DigestVerifyInit(context, nil, hash.algorithm, nil, pointer) == 1 else { return false }
    return EVP_DigestVerify(context, signature, signature.count, bytes, bytes.count) == 1
  }
}

/// Signatures of a key on P-256 as JWS writes them: r and s, 32 octets each (ES256, RFC 7518, section 3.4).
extension SigningKey {
  func signES256(_ bytes: [UInt8]) throws(OpenSSLFailure) -> [UInt8] {
    let numbers = (ASN1Value(try sign(bytes))?.children ?? []).compactMap(\.integer).map { $0.drop { $0 == 0 } }
    guard numbers.count == 2, numbers.allSatisfy({ $0.count <= 32 }) else { throw OpenSSLFailure("EVP_DigestSign") }
    return numbers.flatMap { Array(repeating: 0, count: 32 - $0.count) + $0 }
  }

  func hasMadeES256(_ signature: [UInt8], over bytes: [UInt8]) -> Bool {
    guard signature.count == 64 else { return false }
    let numbers = ASN1Writer.unsigned(Array(signature.prefix(32))) + ASN1Writer.unsigned(Array(signature.suffix(32)))
    return hasMade(ASN1Writer.value(ASN1Writer.Tag.sequence, numbers), over: bytes)
  }
}
