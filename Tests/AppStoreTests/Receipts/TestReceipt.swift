/// An app receipt made in the test.
struct TestReceipt {
  enum Form: CaseIterable {
    case der
    /// Indefinite lengths and a constructed OCTET STRING in two pieces, as Xcode writes.
    case ber
  }

  struct SignedAttributes {
    var contentType = "1.2.840.113549.1.7.1"
    /// The digest that is named; `nil` names the true one.
    var messageDigest: [UInt8]?
  }

  var payload: [UInt8]
  var bag: [[UInt8]]
  var digest = TestKey.Digest.sha256
  var signatureAlgorithm = "1.2.840.113549.1.1.1"
  var signerCount = 1
  var signingKey: TestKey
  var issuer: String
  var serial: Int64
  /// The signed content, when it is not the payload.
  var signedContent: [UInt8]?
  var signedAttributes: SignedAttributes?
  var form = Form.der

  init(_ pki: TestPKI, payload: [UInt8] = TestReceipt.payload()) {
    self.payload = payload
    bag = pki.bag
    signingKey = pki.leafKey
    issuer = pki.leafIssuer
    serial = pki.leafSerial
  }

  func bytes() throws -> [UInt8] {
    let algorithm = DER.algorithm(digest.identifier)
    let signer = try signerInfo(algorithm)
    let version = DER.integer(1)
    let digests = DER.set(signerCount == 0 ? [] : [algorithm])
    let certificates = DER.explicit(0, bag.flatMap { $0 })
    let signers = DER.set(Array(repeating: signer, count: signerCount))
    let dataType = DER.oid("1.2.840.113549.1.7.1")
    let signedType = DER.oid("1.2.840.113549.1.7.2")
    switch form {
    case .der:
      let content = DER.sequence(dataType, DER.explicit(0, DER.octets(payload)))
      return DER.sequence(
        signedType, DER.explicit(0, DER.sequence(version, digests, content, certificates, signers)))
    case .ber:
      let half = payload.count / 2
      let pieces = DER.octets(Array(payload.prefix(half))) + DER.octets(Array(payload.dropFirst(half)))
      let content = DER.indefinite(0x30, dataType + DER.indefinite(0xA0, DER.indefinite(0x24, pieces)))
      let signed = DER.indefinite(0x30, version + digests + content + certificates + signers)
      return DER.indefinite(0x30, signedType + DER.indefinite(0xA0, signed))
    }
  }

  private func signerInfo(_ algorithm: [UInt8]) throws -> [UInt8] {
    let content = signedContent ?? payload
    let identifier = DER.sequence(DER.name(issuer), DER.integer(serial))
    guard let attributes = signedAttributes else {
      return DER.sequence(
        DER.integer(1), identifier, algorithm, DER.algorithm(signatureAlgorithm),
        DER.octets(try signingKey.sign(content, digest)))
    }
    let named = try attributes.messageDigest ?? digest.hash(content)
    let list =
      DER.sequence(DER.oid("1.2.840.113549.1.9.3"), DER.set([DER.oid(attributes.contentType)]))
      + DER.sequence(DER.oid("1.2.840.113549.1.9.4"), DER.set([DER.octets(named)]))
    return DER.sequence(
      DER.integer(1), identifier, algorithm, DER.tlv(0xA0, list), DER.algorithm(signatureAlgorithm),
      DER.octets(try signingKey.sign(DER.tlv(0x31, list), digest)))
  }

  static func attribute(_ number: Int64, _ value: [UInt8]) -> [UInt8] {
    DER.sequence(DER.integer(number), DER.integer(1), DER.octets(value))
  }

  static func row(
    product: String = "com.example.app.pro.monthly", transaction: String = "200000111",
    expires: String =
      "2024-07-14T10:00:00Z", without: Set<Int64> = [], extra: [[UInt8]] = []
  ) -> [UInt8] {
    let attributes: [(Int64, [UInt8])] = [
      (1701, DER.integer(1)), (1702, DER.utf8(product)), (1703, DER.utf8(transaction)),
      (1704, DER.ia5("2024-06-14T10:00:00Z")), (1705, DER.utf8("200000100")), (1706, DER.ia5("2024-05-14T10:00:00Z")),
      (1707, DER.integer(3)), (1708, DER.ia5(expires)), (1711, DER.integer(2_000_000_123_357_229)),
      (1712, DER.ia5("")), (1713, DER.integer(0)), (1719, DER.integer(1)),
    ]
    return DER.set(attributes.filter { !without.contains($0.0) }.map { attribute($0.0, $0.1) } + extra)
  }

  static func payload(
    type: String = "Production", created: String = "2024-06-15T12:00:00Z", rows: [[UInt8]] = [TestReceipt.row()],
    without: Set<Int64> = [], extra: [[UInt8]] = []
  ) -> [UInt8] {
    let attributes: [(Int64, [UInt8])] = [
      (0, DER.utf8(type)), (1, DER.integer(123_456_789)), (2, DER.utf8("com.example.app")), (3, DER.utf8("42")),
      (4, [1, 2, 3, 4]), (5, Array(repeating: 7, count: 20)), (6, [0xFF, 0xFF, 0x00]), (12, DER.ia5(created)),
      (15, DER.integer(503_123_456_789_012_345)), (16, DER.integer(11)), (18, DER.ia5("2020-01-01T00:00:00Z")),
      (19, DER.utf8("1.0")), (21, DER.ia5("")),
    ]
    return DER.set(
      attributes.filter { !without.contains($0.0) }.map { attribute($0.0, $0.1) }
        + rows.map { attribute(17, $0) } + extra)
  }
}
