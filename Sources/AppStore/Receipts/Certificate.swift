import COpenSSL
import Cryptography
import struct FoundationEssentials.Date

/// An X.509 certificate (`X509 *`), read by OpenSSL.
///
/// It lives within one call and is not shared between threads.
final class Certificate {
  /// Lent to the other files that speak to OpenSSL; valid as long as this object.
  let pointer: OpaquePointer

  /// Reads one certificate in DER; `nil` when the bytes are none, or more than one.
  init?(der: some Collection<UInt8>) {
    let bytes = Array(der)
    let certificate = bytes.withUnsafeBufferPointer { buffer -> OpaquePointer? in
      var cursor = buffer.baseAddress
      guard let read = d2i_X509(nil, &cursor, buffer.count) else { return nil }
      guard let cursor, let start = buffer.baseAddress, cursor - start == buffer.count else {
        X509_free(read)
        return nil
      }
      return read
    }
    guard let certificate else {
      ERR_clear_error()
      return nil
    }
    pointer = certificate
  }

  /// Shares a certificate that another object of OpenSSL's owns.
  init?(sharing certificate: OpaquePointer) {
    guard X509_up_ref(certificate) == 1 else { return nil }
    pointer = certificate
  }

  deinit { X509_free(pointer) }

  var der: [UInt8] {
    var encoded: UnsafeMutablePointer<UInt8>?
    let length = i2d_X509(pointer, &encoded)
    defer { countersign_OPENSSL_free(encoded) }
    guard length > 0, let encoded else { return [] }
    return Array(UnsafeBufferPointer(start: encoded, count: Int(length)))
  }

  var subject: String { Self.text(of: X509_get_subject_name(pointer)) }
  var issuer: String { Self.text(of: X509_get_issuer_name(pointer)) }

  var commonName: String? {
    guard let name = X509_get_subject_name(pointer) else { return nil }
    let index = X509_NAME_get_index_by_NID(name, NID_commonName, -1)
    guard index >= 0, let entry = X509_NAME_get_entry(name, index), let value = X509_NAME_ENTRY_get_data(entry),
      let octets = ASN1_STRING_get0_data(value)
    else { return nil }
    let length = Int(ASN1_STRING_length(value))
    return String(validating: UnsafeBufferPointer(start: octets, count: length), as: UTF8.self)
  }

  /// Hexadecimal digits without leading zeros; a minus sign before a negative one.
  var serialNumber: String {
    guard let serial = X509_get0_serialNumber(pointer), let octets = ASN1_STRING_get0_data(serial) else { return "" }
    let bytes = UnsafeBufferPointer(start: octets, count: Int(ASN1_STRING_length(serial)))
    let digits = hexadecimal(bytes).drop { $0 == "0" }
    return (ASN1_STRING_type(serial) == V_ASN1_NEG_INTEGER ? "-" : "") + (digits.isEmpty ? "0" : digits)
  }

  var notBefore: Date? { Self.date(of: X509_get0_notBefore(pointer)) }
  var notAfter: Date? { Self.date(of: X509_get0_notAfter(pointer)) }

  /// Issued by itself by name: a root, or something that looks like one.
  var isSelfIssued: Bool { X509_NAME_cmp(X509_get_subject_name(pointer), X509_get_issuer_name(pointer)) == 0 }

  func hasSameSubject(as other: Certificate) -> Bool {
    X509_NAME_cmp(X509_get_subject_name(pointer), X509_get_subject_name(other.pointer)) == 0
  }

  /// basicConstraints says CA:true (RFC 5280, section 4.2.1.9). Older ways of being a CA do not count.
  var isCertificateAuthority: Bool { X509_check_ca(pointer) == 1 }

  var hasRSAKey: Bool { X509_get0_pubkey(pointer).map { EVP_PKEY_get_base_id($0) == EVP_PKEY_RSA } ?? false }
  var hasEllipticKey: Bool { X509_get0_pubkey(pointer).map { EVP_PKEY_get_base_id($0) == EVP_PKEY_EC } ?? false }

  /// Whether an extension is there, by its dotted object identifier; its value does not matter.
  func hasExtension(_ identifier: String) -> Bool {
    guard let object = OBJ_txt2obj(identifier, 1) else { return false }
    defer { ASN1_OBJECT_free(object) }
    return X509_get_ext_by_OBJ(pointer, object, -1) >= 0
  }

  /// A name as RFC 2253 writes it, control characters and non-ASCII escaped.
  private static func text(of name: OpaquePointer?) -> String {
    guard let name, let bio = BIO_new(BIO_s_mem()) else { return "" }
    defer { BIO_free(bio) }
    guard countersign_X509_NAME_print_RFC2253(bio, name) >= 0 else { return "" }
    var octets: UnsafeMutablePointer<CChar>?
    let length = countersign_BIO_get_mem_data(bio, &octets)
    guard length > 0, let octets else { return "" }
    return String(decoding: UnsafeRawBufferPointer(start: octets, count: length), as: UTF8.self)
  }

  private static func date(of time: UnsafePointer<ASN1_TIME>?) -> Date? {
    var fields = tm()
    guard let time, ASN1_TIME_to_tm(time, &fields) == 1 else { return nil }
    let seconds = ReceiptDate.seconds(
      year: Int(fields.tm_year) + 1_900, month: Int(fields.tm_mon) + 1, day: Int(fields.tm_mday),
      hour: Int(fields.tm_hour), minute: Int(fields.tm_min), second: Int(fields.tm_sec))
    return seconds.map { Date(timeIntervalSince1970: Double($0)) }
  }
}

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

extension [Certificate] {
  /// When all of them are valid, in whole seconds; `nil` when never, or when one does not say.
  var validity: Range<Date>? {
    let starts = compactMap(\.notBefore)
    let ends = compactMap(\.notAfter)
    guard starts.count == count, ends.count == count, let start = starts.max(), let end = ends.min(), start < end
    else { return nil }
    return start..<end
  }
}

extension Date {
  /// The whole second, the precision of certificates.
  var wholeSecond: Date { Date(timeIntervalSince1970: timeIntervalSince1970.rounded(.down)) }
}
