import COpenSSL
import FoundationEssentials

/// An X.509 certificate (`X509 *`).
///
/// `@unchecked Sendable`: never changed after `init`; OpenSSL counts its references atomically.
final class X509Certificate: @unchecked Sendable {
  private let pointer: OpaquePointer

  init(pem: String) throws(OpenSSLFailure) {
    pointer = try PEM.read(pem, "PEM_read_bio_X509") { PEM_read_bio_X509($0, nil, nil, nil) }
  }

  /// A TLS server's certificate of this key, issued now.
  ///
  /// - Parameter names: as OpenSSL's configuration writes alternative names: `DNS:localhost`, `IP:127.0.0.1`.
  init(
    commonName: String, names: [String], key: SigningKey, validity: Range<Date>, issuer: X509Certificate,
    issuerKey: SigningKey
  ) throws(OpenSSLFailure) {
    pointer = try OpenSSLFailure.check(X509_new(), "X509_new")
    // deinit frees the certificate whatever is thrown from here on: all properties are set.
    try OpenSSLFailure.check(X509_set_version(pointer, Int(X509_VERSION_3)), "X509_set_version")
    try OpenSSLFailure.check(
      ASN1_INTEGER_set_uint64(X509_get_serialNumber(pointer), .random(in: 1...UInt64.max)), "ASN1_INTEGER_set_uint64")
    for (time, date) in [
      (X509_getm_notBefore(pointer), validity.lowerBound), (X509_getm_notAfter(pointer), validity.upperBound),
    ] {
      guard ASN1_TIME_set(time, time_t(date.timeIntervalSince1970)) != nil else {
        throw OpenSSLFailure("ASN1_TIME_set")
      }
    }
    try OpenSSLFailure.check(
      X509_set_issuer_name(pointer, X509_get_subject_name(issuer.pointer)), "X509_set_issuer_name")
    try OpenSSLFailure.check(
      X509_NAME_add_entry_by_NID(
        X509_get_subject_name(pointer), NID_commonName, MBSTRING_UTF8, commonName, Int32(commonName.utf8.count), -1, 0),
      "X509_NAME_add_entry_by_NID")
    try OpenSSLFailure.check(X509_set_pubkey(pointer, key.pointer), "X509_set_pubkey")
    for (identifier, value) in [
      (NID_basic_constraints, "critical,CA:FALSE"), (NID_key_usage, "critical,digitalSignature"),
      (NID_ext_key_usage, "serverAuth"), (NID_subject_alt_name, names.joined(separator: ",")),
    ] {
      let `extension` = try OpenSSLFailure.check(
        X509V3_EXT_conf_nid(nil, nil, identifier, value), "X509V3_EXT_conf_nid")
      defer { X509_EXTENSION_free(`extension`) }
      try OpenSSLFailure.check(X509_add_ext(pointer, `extension`, -1), "X509_add_ext")
    }
    try OpenSSLFailure.check(X509_sign(pointer, issuerKey.pointer, EVP_sha256()), "X509_sign")
  }

  deinit { X509_free(pointer) }

  func pem() throws(OpenSSLFailure) -> String {
    try PEM.write("PEM_write_bio_X509") { PEM_write_bio_X509($0, pointer) }
  }

  func der() throws(OpenSSLFailure) -> [UInt8] { try Self.encoded("i2d_X509") { i2d_X509(pointer, $0) } }

  /// The content of IssuerAndSerialNumber, by which a signature names its certificate (RFC 2315, section 6.7).
  func issuerAndSerialNumber() throws(OpenSSLFailure) -> [UInt8] {
    try Self.encoded("i2d_X509_NAME") { i2d_X509_NAME(X509_get_issuer_name(pointer), $0) }
      + Self.encoded("i2d_ASN1_INTEGER") { i2d_ASN1_INTEGER(X509_get0_serialNumber(pointer), $0) }
  }

  /// - Parameter write: one of `i2d_…`, which allocates its output.
  private static func encoded(
    _ call: String, _ write: (UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>) -> Int32
  ) throws(OpenSSLFailure) -> [UInt8] {
    var octets: UnsafeMutablePointer<UInt8>?
    let length = write(&octets)
    defer { countersign_OPENSSL_free(octets) }
    guard length > 0, let octets else { throw OpenSSLFailure(call) }
    return Array(UnsafeBufferPointer(start: octets, count: Int(length)))
  }
}
