import COpenSSL
import Cryptography

@testable import AppStore

/// An elliptic key pair (`EVP_PKEY *`) made for the test run.
///
/// `@unchecked Sendable`: never changed after `init`; signing and encoding make their own contexts.
final class TestECKey: TestCertificateKey, @unchecked Sendable {
  enum Curve {
    case p256, p384

    fileprivate var identifier: Int32 {
      switch self {
      case .p256: NID_X9_62_prime256v1
      case .p384: NID_secp384r1
      }
    }
  }

  /// ecdsa-with-SHA256, which has no parameters.
  let signatureAlgorithm = DER.sequence(DER.oid("1.2.840.10045.4.3.2"))
  private let key: OpaquePointer

  init(_ curve: Curve = .p256) throws {
    guard let context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil) else { throw TestKey.Failure() }
    defer { EVP_PKEY_CTX_free(context) }
    var key: OpaquePointer?
    guard EVP_PKEY_keygen_init(context) == 1,
      EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, curve.identifier) == 1,
      EVP_PKEY_keygen(context, &key) == 1, let key
    else { throw TestKey.Failure() }
    self.key = key
  }

  deinit { EVP_PKEY_free(key) }

  func publicKeyInfo() throws -> [UInt8] { try TestKey.publicKeyInfo(of: key) }

  func signatureInDER(over bytes: [UInt8]) throws -> [UInt8] { try TestKey.sign(bytes, EVP_sha256(), with: key) }

  /// As JWS writes it: r and s, cut to 64 octets for a key on a larger curve.
  func sign(_ bytes: [UInt8]) throws -> [UInt8] {
    let der = try signatureInDER(over: bytes)
    return ES256Signature.raw(fromDER: der) ?? Array(der.prefix(64))
  }

  /// Whether this key made a signature of 64 octets, as a JWS has it.
  func hasMade(_ raw: [UInt8], over bytes: [UInt8]) throws -> Bool {
    guard let der = ES256Signature.der(fromRaw: raw), let context = EVP_MD_CTX_new() else { return false }
    defer { EVP_MD_CTX_free(context) }
    guard EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1 else { throw TestKey.Failure() }
    return EVP_DigestVerify(context, der, der.count, bytes, bytes.count) == 1
  }

  enum PEMForm: CaseIterable {
    case pkcs8, sec1, encrypted, publicKey
  }

  func pem(_ form: PEMForm = .pkcs8) throws -> String {
    guard let bio = BIO_new(BIO_s_mem()) else { throw TestKey.Failure() }
    defer { BIO_free(bio) }
    let passphrase: [UInt8] = Array("passphrase".utf8)
    let result =
      switch form {
      case .pkcs8: PEM_write_bio_PKCS8PrivateKey(bio, key, nil, nil, 0, nil, nil)
      case .sec1: PEM_write_bio_PrivateKey_traditional(bio, key, nil, nil, 0, nil, nil)
      case .encrypted:
        passphrase.withUnsafeBytes {
          PEM_write_bio_PKCS8PrivateKey(
            bio, key, EVP_aes_128_cbc(), $0.bindMemory(to: CChar.self).baseAddress, Int32($0.count), nil, nil)
        }
      case .publicKey: PEM_write_bio_PUBKEY(bio, key)
      }
    var octets: UnsafeMutablePointer<CChar>?
    let length = countersign_BIO_get_mem_data(bio, &octets)
    guard result == 1, length > 0, let octets else { throw TestKey.Failure() }
    return String(decoding: UnsafeRawBufferPointer(start: octets, count: length), as: UTF8.self)
  }
}
