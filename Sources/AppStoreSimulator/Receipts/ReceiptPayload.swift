import FoundationEssentials

/// The signed part of an app receipt: a SET of attributes, the simulator's seed among them.
///
///     ReceiptAttribute ::= SEQUENCE { type INTEGER, version INTEGER, value OCTET STRING }
///
/// Apple's page "Receipt Fields" documents the types 2, 3, 4, 5, 12, 17, 19, 21 and 1701 to 1719; the others occur in
/// real receipts.
enum ReceiptPayload {
  /// Attribute 5 is a hash of the device's identifier, which is this one here.
  static let deviceIdentifier: [UInt8] = Array(repeating: 0xC5, count: 16)

  static func encode(_ seed: ReceiptSeed) throws -> [UInt8] {
    let opaque = try Array(JSONEncoder.sorted.encode(seed))
    let bundle = ASN1Writer.utf8(seed.bundleID)
    let hash = Digest.sha1(deviceIdentifier + opaque + bundle)
    let receiptType = seed.format == .xcode ? "Xcode" : seed.environment.receiptType
    let createdAt = seed.createdAt.text

    var attributes: [[UInt8]] = [
      attribute(0, ASN1Writer.utf8(receiptType)),
      attribute(1, ASN1Writer.integer(seed.environment.appItemID)),
      attribute(2, bundle),
      attribute(3, ASN1Writer.utf8(ReceiptSeed.applicationVersion)),
      attribute(4, opaque),
      attribute(5, hash),
      attribute(8, ASN1Writer.ia5(createdAt)),
      attribute(10, ASN1Writer.ia5("4+")),
      attribute(12, ASN1Writer.ia5(createdAt)),
      attribute(15, ASN1Writer.integer(seed.downloadID)),
      attribute(16, ASN1Writer.integer(versionExternalIdentifier(seed))),
      attribute(18, ASN1Writer.ia5(seed.originalPurchaseDate.text)),
      attribute(19, ASN1Writer.utf8(seed.originalApplicationVersion)),
    ]
    if seed.format == .xcode { attributes.append(attribute(21, ASN1Writer.ia5("4001-01-01T00:00:00Z"))) }
    for row in seed.state(at: seed.createdAt).rows { attributes.append(attribute(17, record(row, seed))) }
    return set(attributes)
  }

  static func versionExternalIdentifier(_ seed: ReceiptSeed) -> Int64 {
    seed.environment == .production ? 860_000_001 : 0
  }

  private static func record(_ row: CustomerState.Row, _ seed: ReceiptSeed) -> [UInt8] {
    set([
      attribute(1701, ASN1Writer.integer(1)),
      attribute(1702, ASN1Writer.utf8(row.product.id)),
      attribute(1703, ASN1Writer.utf8(seed.transactionID(slot: row.slot, number: row.number))),
      attribute(1704, ASN1Writer.ia5(row.purchasedAt.text)),
      attribute(1705, ASN1Writer.utf8(seed.transactionID(slot: row.slot, number: 0))),
      attribute(1706, ASN1Writer.ia5(row.originallyPurchasedAt.text)),
      attribute(1707, ASN1Writer.integer(row.product.appleType.inReceipts)),
      // A lifetime purchase has an expiry, an empty string.
      attribute(1708, ASN1Writer.ia5(row.expiresAt?.text ?? "")),
      attribute(
        1711,
        ASN1Writer.integer(
          row.product.isSubscription ? seed.webOrderLineItemID(slot: row.slot, number: row.number) : 0)),
      attribute(1712, ASN1Writer.ia5(row.cancelledAt?.text ?? "")),
      attribute(1713, ASN1Writer.integer(row.isTrial ? 1 : 0)),
      attribute(1719, ASN1Writer.integer(0)),
    ])
  }

  private static func attribute(_ type: Int64, _ value: [UInt8]) -> [UInt8] {
    ASN1Writer.value(
      ASN1Writer.Tag.sequence,
      ASN1Writer.integer(type) + ASN1Writer.integer(1) + ASN1Writer.value(ASN1Writer.Tag.octetString, value))
  }

  /// DER requires the elements of a SET OF in the order of their octets (X.690, section 11.6).
  private static func set(_ elements: [[UInt8]]) -> [UInt8] {
    let sorted = elements.sorted { $0.lexicographicallyPrecedes($1) }
    return ASN1Writer.value(ASN1Writer.Tag.set, sorted.flatMap { $0 })
  }
}

extension JSONEncoder {
  /// A deterministic encoding: equal values give equal octets.
  static var sorted: JSONEncoder {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
    return encoder
  }
}
