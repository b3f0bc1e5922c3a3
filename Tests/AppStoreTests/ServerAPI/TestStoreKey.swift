import COpenSSL
import Cryptography

@testable import AppStore

/// A key pair on P-256 (`EVP_PKEY *`) made for the test run.
///
/// `@unchecked Sendable`: never changed after `init`; signing and encoding make their own contexts.
final class TestStoreKey: @unchecked Sendable {
  private let key: OpaquePointer

  init() throws {
    guard let context = EVP_PKEY_CTX_new_id(EVP_PKEY_EC, nil) else { throw TestKey.Failure() }
    defer { EVP_PKEY_CTX_free(context) }
    var key: OpaquePointer?
    guard EVP_PKEY_keygen_init(context) == 1,
      EVP_PKEY_CTX_set_ec_paramgen_curve_nid(context, NID_X9_62_prime256v1) == 1,
      EVP_PKEY_keygen(context, &key) == 1, let key
    else { throw TestKey.Failure() }
    self.key = key
  }

  deinit { EVP_PKEY_free(key) }

  /// SubjectPublicKeyInfo.
  func publicKeyInfo() throws -> [UInt8] {
    var encoded: UnsafeMutablePointer<UInt8>?
    let length = i2d_PUBKEY(key, &encoded)
    defer { countersign_OPENSSL_free(encoded) }
    guard length > 0, let encoded else { throw TestKey.Failure() }
    return Array(UnsafeBufferPointer(start: encoded, count: Int(length)))
  }

  /// As App Store Connect hands a key out.
  func pem() throws -> String {
    guard let bio = BIO_new(BIO_s_mem()) else { throw TestKey.Failure() }
    defer { BIO_free(bio) }
    guard PEM_write_bio_PKCS8PrivateKey(bio, key, nil, nil, 0, nil, nil) == 1 else { throw TestKey.Failure() }
    var data: UnsafeMutablePointer<CChar>?
    let length = countersign_BIO_get_mem_data(bio, &data)
    guard length > 0, let data else { throw TestKey.Failure() }
    return String(decoding: UnsafeRawBufferPointer(start: data, count: length), as: UTF8.self)
  }

  /// ECDSA with SHA-256, in DER.
  func sign(_ bytes: [UInt8]) throws -> [UInt8] {
    guard let context = EVP_MD_CTX_new() else { throw TestKey.Failure() }
    defer { EVP_MD_CTX_free(context) }
    guard EVP_DigestSignInit(context, nil, EVP_sha256(), nil, key) == 1 else { throw TestKey.Failure() }
    var length = 0
    guard EVP_DigestSign(context, nil, &length, bytes, bytes.count) == 1 else { throw TestKey.Failure() }
    var signature = [UInt8](repeating: 0, count: length)
    guard EVP_DigestSign(context, &signature, &length, bytes, bytes.count) == 1 else { throw TestKey.Failure() }
    return Array(signature.prefix(length))
  }

  /// Whether this key made a signature of 64 octets, as a JWS has it.
  func hasMade(_ raw: [UInt8], over bytes: [UInt8]) throws -> Bool {
    guard let der = ES256Signature.der(fromRaw: raw), let context = EVP_MD_CTX_new() else { return false }
    defer { EVP_MD_CTX_free(context) }
    guard EVP_DigestVerifyInit(context, nil, EVP_sha256(), nil, key) == 1 else { throw TestKey.Failure() }
    return EVP_DigestVerify(context, der, der.count, bytes, bytes.count) == 1
  }
}

/// Signs what Apple signs, with certificates like Apple's: a root, an intermediate with its mark, and a leaf with the mark
/// of receipts, all on P-256 and valid 2020-2040.
struct TestStore: Sendable {
  static let made = Result { try TestStore() }

  let roots: TrustedRoots
  private let header: String
  private let leafKey: TestStoreKey

  init() throws {
    let rootKey = try TestStoreKey()
    let intermediateKey = try TestStoreKey()
    leafKey = try TestStoreKey()
    let root = try Self.certificate(
      "Store Root", key: rootKey, issuer: "Store Root", issuerKey: rootKey, serial: 1,
      extensions: [TestPKI.basicConstraints(true)])
    let intermediate = try Self.certificate(
      "Store Relations", key: intermediateKey, issuer: "Store Root", issuerKey: rootKey, serial: 2,
      extensions: [TestPKI.basicConstraints(true), TestPKI.marker(ReceiptVerifier.intermediateMarker)])
    let leaf = try Self.certificate(
      "Store Signing", key: leafKey, issuer: "Store Relations", issuerKey: intermediateKey, serial: 3,
      extensions: [TestPKI.basicConstraints(false), TestPKI.marker(ReceiptVerifier.leafMarker)])
    guard let roots = TrustedRoots(ders: [root]) else { throw TestKey.Failure() }
    self.roots = roots
    let chain = [leaf, intermediate, root].map { "\"\(Self.base64($0))\"" }.joined(separator: ",")
    header = Base64URL.encode(Array(#"{"alg":"ES256","x5c":[\#(chain)]}"#.utf8))
  }

  var verifier: SignedDataVerifier { SignedDataVerifier(roots: roots) }

  /// A JWS of a payload.
  func sign(_ payload: String) throws -> String {
    let signed = "\(header).\(Base64URL.encode(Array(payload.utf8)))"
    guard let signature = ES256Signature.raw(fromDER: try leafKey.sign(Array(signed.utf8))) else {
      throw TestKey.Failure()
    }
    return "\(signed).\(Base64URL.encode(signature))"
  }

  private static func certificate(
    _ subject: String, key: TestStoreKey, issuer: String, issuerKey: TestStoreKey, serial: Int64,
    extensions: [[UInt8]]
  ) throws -> [UInt8] {
    let algorithm = DER.sequence(DER.oid("1.2.840.10045.4.3.2"))
    let body = DER.sequence(
      DER.explicit(0, DER.integer(2)), DER.integer(serial), algorithm, DER.name(issuer),
      DER.sequence(DER.utcTime("200101000000Z"), DER.utcTime("400101000000Z")), DER.name(subject),
      try key.publicKeyInfo(), DER.explicit(3, DER.tlv(0x30, extensions.flatMap { $0 })))
    return DER.sequence(body, algorithm, DER.bits(try issuerKey.sign(body)))
  }

  /// Standard base64, as `x5c` has it.
  private static func base64(_ bytes: [UInt8]) -> String {
    let text = Base64URL.encode(bytes).replacing("-", with: "+").replacing("_", with: "/")
    return text + String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
  }
}
