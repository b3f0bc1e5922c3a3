import COpenSSL

/// A key pair that certificates can be made for and signed with.
protocol TestCertificateKey {
  /// AlgorithmIdentifier of `signatureInDER`.
  var signatureAlgorithm: [UInt8] { get }
  /// SubjectPublicKeyInfo.
  func publicKeyInfo() throws -> [UInt8]
  /// As certificates hold it, with SHA-256.
  func signatureInDER(over bytes: [UInt8]) throws -> [UInt8]
}

/// An RSA key pair (`EVP_PKEY *`) made for the test run.
///
/// `@unchecked Sendable`: never changed after `init`; signing and encoding make their own contexts.
final class TestKey: TestCertificateKey, @unchecked Sendable {
  struct Failure: Error {}

  enum Digest: CaseIterable {
    case sha1, sha256, sha384

    var identifier: String {
      switch self {
      case .sha1: "1.3.14.3.2.26"
      case .sha256: "2.16.840.1.101.3.4.2.1"
      case .sha384: "2.16.840.1.101.3.4.2.2"
      }
    }

    fileprivate var function: OpaquePointer? {
      switch self {
      case .sha1: EVP_sha1()
      case .sha256: EVP_sha256()
      case .sha384: EVP_sha384()
      }
    }

    func hash(_ bytes: [UInt8]) throws -> [UInt8] {
      var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
      var length: UInt32 = 0
      guard EVP_Digest(bytes, bytes.count, &digest, &length, function, nil) == 1 else { throw Failure() }
      return Array(digest.prefix(Int(length)))
    }
  }

  private let key: OpaquePointer

  init(bits: Int32 = 2_048) throws {
    guard let context = EVP_PKEY_CTX_new_id(EVP_PKEY_RSA, nil) else { throw Failure() }
    defer { EVP_PKEY_CTX_free(context) }
    var key: OpaquePointer?
    guard EVP_PKEY_keygen_init(context) == 1, EVP_PKEY_CTX_set_rsa_keygen_bits(context, bits) == 1,
      EVP_PKEY_keygen(context, &key) == 1, let key
    else { throw Failure() }
    self.key = key
  }

  deinit { EVP_PKEY_free(key) }

  let signatureAlgorithm = DER.algorithm("1.2.840.113549.1.1.11")

  func publicKeyInfo() throws -> [UInt8] { try TestKey.publicKeyInfo(of: key) }

  func signatureInDER(over bytes: [UInt8]) throws -> [UInt8] { try sign(bytes) }

  /// SubjectPublicKeyInfo of an `EVP_PKEY *`.
  static func publicKeyInfo(of key: OpaquePointer) throws -> [UInt8] {
    var encoded: UnsafeMutablePointer<UInt8>?
    let length = i2d_PUBKEY(key, &encoded)
    defer { countersign_OPENSSL_free(encoded) }
    guard length > 0, let encoded else { throw Failure() }
    return Array(UnsafeBufferPointer(start: encoded, count: Int(length)))
  }

  /// RSA with PKCS#1 v1.5.
  func sign(_ bytes: [UInt8], _ digest: Digest = .sha256) throws -> [UInt8] {
    try TestKey.sign(bytes, digest.function, with: key)
  }

  /// The signature that OpenSSL makes with an `EVP_PKEY *`.
  static func sign(_ bytes: [UInt8], _ digest: OpaquePointer?, with key: OpaquePointer) throws -> [UInt8] {
    guard let context = EVP_MD_CTX_new() else { throw Failure() }
    defer { EVP_MD_CTX_free(context) }
    guard EVP_DigestSignInit(context, nil, digest, nil, key) == 1 else { throw Failure() }
    var length = 0
    guard EVP_DigestSign(context, nil, &length, bytes, bytes.count) == 1 else { throw Failure() }
    var signature = [UInt8](repeating: 0, count: length)
    guard EVP_DigestSign(context, &signature, &length, bytes, bytes.count) == 1 else { throw Failure() }
    return Array(signature.prefix(length))
  }
}
