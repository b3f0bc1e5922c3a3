import Crypto
import FoundationEssentials
import SwiftASN1
import X509
import _CryptoExtras

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
    let signature = try signer.key.signature(for: SHA256.hash(data: payload), padding: .insecurePKCS1v1_5)
    return try assemble(
      payload: payload, signature: Array(signature.rawRepresentation), signer: signer,
      isBER: seed.format == .ber || seed.format == .xcode,
      padding: seed.format == .padded ? pki.transaction.der : [])
  }

  func read(_ bytes: [UInt8]) -> ReceiptReading {
    guard let message = Message(bytes), let attributes = Message.attributes(of: message.payload) else {
      return .notAReceipt
    }
    if attributes[0] == ASN1Writer.utf8("Xcode") { return .notAReceipt }
    let signature = _RSA.Signing.RSASignature(rawRepresentation: message.signature)
    guard
      pki.leaf.key.publicKey.isValidSignature(
        signature, for: SHA256.hash(data: message.payload), padding: .insecurePKCS1v1_5),
      isUnchanged(bytes, message),
      let opaque = attributes[4], let seed = try? JSONDecoder().decode(ReceiptSeed.self, from: Data(opaque))
    else { return .notAuthentic }
    return .authentic(seed)
  }

  /// The signature covers the payload only; everything around it has to be exactly what this simulator writes.
  private func isUnchanged(_ bytes: [UInt8], _ message: Message) -> Bool {
    [false, true].contains { isBER in
      let written = try? assemble(
        payload: message.payload, signature: message.signature, signer: pki.leaf, isBER: isBER)
      return written == bytes
    }
  }

  private func assemble(
    payload: [UInt8], signature: [UInt8], signer: DevelopmentPKI.Signer, isBER: Bool, padding: [UInt8] = []
  ) throws -> [UInt8] {
    let constructed = isBER ? ASN1Writer.indefinite : ASN1Writer.value
    let sha256 = ASN1Writer.value(ASN1Writer.Tag.sequence, OID.sha256 + ASN1Writer.value(ASN1Writer.Tag.null, []))
    let rsa = ASN1Writer.value(ASN1Writer.Tag.sequence, OID.rsaEncryption + ASN1Writer.value(ASN1Writer.Tag.null, []))
    let content =
      isBER
      ? ASN1Writer.indefinite(ASN1Writer.Tag.constructedOctetString, Self.pieces(payload))
      : ASN1Writer.value(ASN1Writer.Tag.octetString, payload)
    let chain = signer.der == pki.leaf.der ? pki.intermediateDER + pki.root.der : []
    let bag = signer.der + chain + padding

    var issuer = DER.Serializer()
    try issuer.serialize(signer.certificate.issuer)
    let serial = ASN1Writer.value(ASN1Writer.Tag.integer, Self.positive(Array(signer.certificate.serialNumber.bytes)))
    let signerInfo = ASN1Writer.value(
      ASN1Writer.Tag.sequence,
      ASN1Writer.integer(1) + ASN1Writer.value(ASN1Writer.Tag.sequence, issuer.serializedBytes + serial) + sha256 + rsa
        + ASN1Writer.value(ASN1Writer.Tag.octetString, signature))

    let signedData = constructed(
      ASN1Writer.Tag.sequence,
      ASN1Writer.integer(1)
        + ASN1Writer.value(ASN1Writer.Tag.set, sha256)
        + constructed(ASN1Writer.Tag.sequence, OID.data + constructed(ASN1Writer.Tag.contextual0, content))
        + constructed(ASN1Writer.Tag.contextual0, bag)
        + ASN1Writer.value(ASN1Writer.Tag.set, signerInfo))
    return constructed(
      ASN1Writer.Tag.sequence, OID.signedData + constructed(ASN1Writer.Tag.contextual0, signedData))
  }

  /// The payload as the segments of a constructed OCTET STRING.
  private static func pieces(_ payload: [UInt8]) -> [UInt8] {
    stride(from: 0, to: payload.count, by: 1_000).flatMap { start in
      ASN1Writer.value(ASN1Writer.Tag.octetString, Array(payload[start..<min(start + 1_000, payload.count)]))
    }
  }

  /// The content of a non-negative INTEGER.
  private static func positive(_ magnitude: [UInt8]) -> [UInt8] {
    let digits = Array(magnitude.drop { $0 == 0 })
    return (digits.first ?? 0x80) >= 0x80 ? [0] + digits : digits
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
    guard let root = try? BER.parse(bytes), let outer = Self.children(root), outer.count == 2,
      let signedData = Self.children(outer[1])?.first, let parts = Self.children(signedData), parts.count == 5,
      let encapsulated = Self.children(parts[2]), encapsulated.count == 2,
      let content = Self.children(encapsulated[1])?.first, let payload = Self.octets(content),
      let signer = Self.children(parts[4])?.first, let fields = Self.children(signer), let last = fields.last,
      let signature = Self.octets(last)
    else { return nil }
    self.payload = payload
    self.signature = signature
  }

  /// The first value of each attribute of a payload, by type.
  static func attributes(of payload: [UInt8]) -> [Int: [UInt8]]? {
    guard let root = try? BER.parse(payload), root.identifier == .set, let elements = children(root) else { return nil }
    var attributes: [Int: [UInt8]] = [:]
    for element in elements {
      guard let fields = children(element), fields.count == 3, let type = try? Int(berEncoded: fields[0]),
        let value = octets(fields[2])
      else { return nil }
      if attributes[type] == nil { attributes[type] = value }
    }
    return attributes
  }

  private static func children(_ node: ASN1Node) -> [ASN1Node]? {
    guard case .constructed(let nodes) = node.content else { return nil }
    return Array(nodes)
  }

  /// An OCTET STRING, primitive or constructed.
  private static func octets(_ node: ASN1Node) -> [UInt8]? {
    guard node.identifier == .octetString else { return nil }
    switch node.content {
    case .primitive(let bytes): return Array(bytes)
    case .constructed(let pieces):
      var bytes: [UInt8] = []
      for piece in pieces {
        guard case .primitive(let part) = piece.content else { return nil }
        bytes += part
      }
      return bytes
    }
  }
}
