import COpenSSL

/// A PKCS#7 signed-data message (`CMS_ContentInfo *`, RFC 5652), read by OpenSSL in BER or DER.
///
/// It lives within one call and is not shared between threads.
final class SignedMessage {
  enum Malformed: Error, Hashable {
    case unreadable, trailingBytes, notSignedData, noContent, tooManyCertificates
  }

  /// A signature of the message, as it describes itself.
  struct Signature {
    /// The digest's short name in lower case (`sha1`, `sha256`), or its dotted object identifier.
    var digest: String
    /// RSA with PKCS#1 v1.5, written in one of the ways that receipts write it.
    var isPlainRSA: Bool
    /// The certificate that it names by issuer and serial number; `nil` when the message does not carry it.
    var certificate: Certificate?
    fileprivate var info: OpaquePointer
  }

  /// Receipts carry three (Xcode's one). More make work and prove nothing.
  static let certificateLimit = 16

  /// The octets that are signed.
  let content: [UInt8]
  /// In the order of the message, which means nothing.
  let certificates: [Certificate]
  private let message: OpaquePointer

  init(_ bytes: [UInt8]) throws(Malformed) {
    let (message, failure) = Self.read(bytes)
    guard let message else {
      ERR_clear_error()
      throw failure
    }
    var isOwned = false
    defer { if !isOwned { CMS_ContentInfo_free(message) } }

    guard OBJ_obj2nid(CMS_get0_type(message)) == NID_pkcs7_signed else { throw .notSignedData }
    guard OBJ_obj2nid(CMS_get0_eContentType(message)) == NID_pkcs7_data,
      let place = CMS_get0_content(message), let octets = place.pointee, let data = ASN1_STRING_get0_data(octets)
    else {
      ERR_clear_error()
      throw .noContent
    }
    let content = Array(UnsafeBufferPointer(start: data, count: Int(ASN1_STRING_length(octets))))
    let certificates = try Self.certificates(of: message)

    self.content = content
    self.certificates = certificates
    self.message = message
    isOwned = true
  }

  deinit { CMS_ContentInfo_free(message) }

  /// How many signatures the message has. Only the first is ever looked at.
  var signatureCount: Int {
    guard let infos = CMS_get0_SignerInfos(message) else { return 0 }
    return max(0, Int(countersign_sk_CMS_SignerInfo_num(infos)))
  }

  var firstSignature: Signature? {
    guard let infos = CMS_get0_SignerInfos(message), countersign_sk_CMS_SignerInfo_num(infos) > 0,
      let info = countersign_sk_CMS_SignerInfo_value(infos, 0)
    else { return nil }
    var digest: UnsafeMutablePointer<X509_ALGOR>?
    var signature: UnsafeMutablePointer<X509_ALGOR>?
    CMS_SignerInfo_get0_algs(info, nil, nil, &digest, &signature)
    let plain: Set<Int32> = [NID_rsaEncryption, NID_sha1WithRSAEncryption, NID_sha256WithRSAEncryption]
    return Signature(
      digest: Self.name(of: digest),
      isPlainRSA: plain.contains(Self.identifier(of: signature)),
      certificate: certificates.first { CMS_SignerInfo_cert_cmp(info, $0.pointer) == 0 },
      info: info)
  }

  /// Whether the signature was made over this content by the key of `certificate`.
  ///
  /// Without signed attributes the signature covers the content itself; with them it covers the attributes, which must
  /// name the content's digest and its type (RFC 5652, sections 5.4 and 5.6).
  func isIntact(_ signature: Signature, by certificate: Certificate) -> Bool {
    defer { ERR_clear_error() }
    guard signatureCount == 1 else { return false }
    if CMS_signed_get_attr_count(signature.info) >= 0 {
      guard
        let type = CMS_signed_get0_data_by_OBJ(
          signature.info, OBJ_nid2obj(NID_pkcs9_contentType), -3, V_ASN1_OBJECT),
        OBJ_obj2nid(OpaquePointer(type)) == NID_pkcs7_data
      else { return false }
    }
    CMS_SignerInfo_set1_signer_cert(signature.info, certificate.pointer)
    // The chain is judged elsewhere, by our own rules and at the receipt's own time.
    let flags = UInt32(CMS_BINARY) | UInt32(CMS_NO_SIGNER_CERT_VERIFY)
    return CMS_verify(message, nil, nil, nil, nil, flags) == 1
  }

  private static func read(_ bytes: [UInt8]) -> (OpaquePointer?, Malformed) {
    bytes.withUnsafeBufferPointer { buffer in
      var cursor = buffer.baseAddress
      guard let message = d2i_CMS_ContentInfo(nil, &cursor, buffer.count) else { return (nil, .unreadable) }
      guard let cursor, let start = buffer.baseAddress, cursor - start == buffer.count else {
        CMS_ContentInfo_free(message)
        return (nil, .trailingBytes)
      }
      return (message, .unreadable)
    }
  }

  private static func certificates(of message: OpaquePointer) throws(Malformed) -> [Certificate] {
    guard let stack = CMS_get1_certs(message) else {
      ERR_clear_error()
      return []
    }
    defer { countersign_sk_X509_pop_free(stack) }
    let count = countersign_sk_X509_num(stack)
    guard count <= certificateLimit else { throw .tooManyCertificates }
    var certificates: [Certificate] = []
    for index in 0..<max(0, count) {
      guard let pointer = countersign_sk_X509_value(stack, index), let certificate = Certificate(sharing: pointer)
      else { throw .unreadable }
      certificates.append(certificate)
    }
    return certificates
  }

  private static func identifier(of algorithm: UnsafeMutablePointer<X509_ALGOR>?) -> Int32 {
    guard let algorithm else { return NID_undef }
    var object: OpaquePointer?
    X509_ALGOR_get0(&object, nil, nil, algorithm)
    return OBJ_obj2nid(object)
  }

  private static func name(of algorithm: UnsafeMutablePointer<X509_ALGOR>?) -> String {
    guard let algorithm else { return "none" }
    var object: OpaquePointer?
    X509_ALGOR_get0(&object, nil, nil, algorithm)
    let identifier = OBJ_obj2nid(object)
    if identifier != NID_undef, let name = OBJ_nid2sn(identifier) { return String(cString: name).lowercased() }
    var text = [CChar](repeating: 0, count: 80)
    let length = OBJ_obj2txt(&text, Int32(text.count), object, 1)
    guard length > 0 else { return "unknown" }
    return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
