import FoundationEssentials

/// Writes and reads app receipts: PKCS#7 SignedData over the payload, without signed attributes (RFC 2315, section 9).
///
/// The signature is RSA PKCS#1 v1.5 with SHA-256 over the content octets. The same seed always gives the same octets.
struct SignedReceipt: Sendable {
  let pki: DevelopmentPKI

  private enum OID {
    static let data = ASN1Writer.objectIdentifier([1, 2, 840, 113549, 1, 7, 1])
    static let signedData = ASN1Writer.objectIdentifier([1, 2, 840, 113549, 1, 7, 2])
    static let rsaEncryption = ASN1Writer.objectIdentifier([1, 2, 840, 113549, 1, 1, 1])
    static let sha256 = ASN1Writer.objectIdentifier([2, 16, 840, 1, 101, 3, 4, 2, 1])
  }

  func encode(_ seed: ReceiptSeed) throws -> [UInt8] {
    let payload = try ReceiptPayload.encode(seed)
    let signer =
      switch seed.format {
      case .xcode: pki.xcode
      case .forged: pki.transaction
      case .der, .ber, .ios6, .padded: pki.leaf
      }
    return try encode(
      payload: payload, signer: signer,
      isBER: seed.format == .ber || seed.format == .xcode, padding: seed.format == .padded ? pki.transaction.der : [])
  }

  func encode(
    payload: [UInt8], signer: DevelopmentPKI.Signer, isBER: Bool = false, padding: [UInt8] = []
  ) throws -> [UInt8] {
    assemble(
      payload: payload, signature: try signer.key.sign(payload), signer: signer, isBER: isBER, padding: padding)
  }

  func read(_ bytes: [UInt8]) -> ReceiptReading {
    guard let message = Message(bytes), let attributes = Message.attributes(of: message.payload) else {
      return .notAReceipt
    }
    if attributes[0] == ASN1Writer.utf8("Xcode") { return .notAReceipt }
    guard pki.leaf.key.hasMade(message.signature, over: message.payload), isUnchanged(bytes, message),
      let opaque = attributes[4], let seed = try? JSONDecoder().decode(ReceiptSeed.self, from: Data(opaque))
    else { return .notAuthentic }
    return .authentic(seed)
  }

  /// The signature covers the payload only; everything around it has to equal this simulator's own bytes.
  private func isUnchanged(_ bytes: [UInt8], _ message: Message) -> Bool {
    [false, true].contains { isBER in
      assemble(payload: message.payload, signature: message.signature, signer: pki.leaf, isBER: isBER) == bytes
    }
  }

  private func assemble(
    payload: [UInt8], signature: [UInt8], signer: DevelopmentPKI.Signer, isBER: Bool, padding: [UInt8] = []
  ) -> [UInt8] {
    let constructed = isBER ? ASN1Writer.indefinite : ASN1Writer.value
    let sha256 = ASN1Writer.value(ASN1Writer.Tag.sequence, OID.sha256 + ASN1Writer.value(ASN1Writer.Tag.null, []))
    let rsa = ASN1Writer.value(ASN1Writer.Tag.sequence, OID.rsaEncryption + ASN1Writer.value(ASN1Writer.Tag.null, []))
    let content =
      isBER
      ? ASN1Writer.indefinite(ASN1Writer.Tag.constructedOctetString, Self.pieces(payload))
      : ASN1Writer.value(ASN1Writer.Tag.octetString, payload)
    let chain = signer.der == pki.leaf.der ? pki.intermediateDER + pki.root.der : []
    let bag = signer.der + chain + padding

    let signerInfo = ASN1Writer.value(
      ASN1Writer.Tag.sequence,
      ASN1Writer.integer(1) + ASN1Writer.value(ASN1Writer.Tag.sequence, signer.issuerAndSerialNumber) + sha256 + rsa
        + ASN1Writer.value(ASN1Writer.Tag.octetString, signature))

    let signedData = constructed(
      ASN1Writer.Tag.sequence,
      ASN1Writer.integer(1)
        + ASN1Writer.value(ASN1Writer.Tag.set, sha256)
        + constructed(ASN1Writer.Tag.sequence, OID.data + constructed(ASN1Writer.Tag.contextual0, content))
        + constructed(ASN1Writer.Tag.contextual0, bag)
        + ASN1Writer.value(ASN1Writer.Tag.set, signerInfo))
    return constructed(ASN1Writer.Tag.sequence, OID.signedData + constructed(ASN1Writer.Tag.contextual0, signedData))
  }

  /// The payload as the segments of a constructed OCTET STRING.
  private static func pieces(_ payload: [UInt8]) -> [UInt8] {
    stride(from: 0, to: payload.count, by: 1_000).flatMap { start in
      ASN1Writer.value(ASN1Writer.Tag.octetString, Array(payload[start..<min(start + 1_000, payload.count)]))
    }
  }
}

/// The result of reading received bytes.
enum ReceiptReading: Sendable {
  /// Signed by the development PKI and unchanged.
  case authentic(ReceiptSeed)
  /// A receipt of another issuer, or a modified one.
  case notAuthentic
  /// Not a receipt, or one that a store never sees.
  case notAReceipt
}

/// The relevant parts of a PKCS#7 message.
private struct Message {
  var payload: [UInt8]
  var signature: [UInt8]

  init?(_ bytes: [UInt8]) {
    guard let outer = ASN1Value(bytes)?.children, outer.count == 2,
      let signedData = outer[1].children?.first, let parts = signedData.children, parts.count == 5,
      let encapsulated = parts[2].children, encapsulated.count == 2,
      let payload = encapsulated[1].children?.first?.octets,
      let signature = parts[4].children?.first?.children?.last?.octets
    else { return nil }
    self.payload = payload
    self.signature = signature
  }

  /// The first value of each attribute of a payload, by type.
  static func attributes(of payload: [UInt8]) -> [Int: [UInt8]]? {
    guard let root = ASN1Value(payload), root.tag | 0x20 == ASN1Writer.Tag.set, let elements = root.children else {
      return nil
    }
    var attributes: [Int: [UInt8]] = [:]
    for element in elements {
      guard let fields = element.children, fields.count == 3, let type = fields[0].integer, type.count <= 4,
        let value = fields[2].octets
      else { return nil }
      let number = type.reduce(0) { $0 << 8 | Int($1) }
      if attributes[number] == nil { attributes[number] = value }
    }
    return attributes
  }
}
