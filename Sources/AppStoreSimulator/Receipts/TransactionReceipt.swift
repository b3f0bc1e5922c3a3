import FoundationEssentials

/// Writes and reads transaction receipts of the iOS 6 kind: one transaction in a NeXTSTEP property list.
///
///     { "signature" = base64; "purchase-info" = base64 of another list; "pod" = "…"; "signing-status" = "0"; }
///
/// The octets of the signature: version 3, 256 octets of RSA, the leaf's length in four octets, the leaf. It signs the
/// version followed by the purchase info, with SHA-1, as these receipts always did.
struct TransactionReceipt: Sendable {
  let pki: DevelopmentPKI

  private static let version: UInt8 = 3
  private static let seedKey = "simulator-seed"

  func encode(_ seed: ReceiptSeed) throws -> [UInt8] {
    guard let row = seed.state(at: seed.createdAt).rows.last else { throw IssueError.nothingBought(seed.scenario) }
    var entries = LegacyFields.fields(of: row, seed: seed).map { field in
      (field.0.replacing("_", with: "-"), field.1)
    }
    entries.append((Self.seedKey, Data(try JSONEncoder.sorted.encode(seed)).base64EncodedString()))
    let info = Array(Self.list(entries).utf8)
    let signature = try pki.transaction.key.sign([Self.version] + info, .sha1)
    return assemble(info: info, signature: signature, environment: seed.environment)
  }

  func read(_ bytes: [UInt8]) -> ReceiptReading {
    guard let text = String(validating: bytes, as: UTF8.self),
      let info = Self.entry("purchase-info", in: text).flatMap({ Data(base64Encoded: $0) }),
      let blob = Self.entry("signature", in: text).flatMap({ Data(base64Encoded: $0) })
    else { return .notAReceipt }
    let octets = Array(blob)
    guard octets.count > 257, octets.first == Self.version else { return .notAuthentic }
    let signature = Array(octets[1..<257])
    guard
      pki.transaction.key.hasMade(signature, over: [Self.version] + Array(info), .sha1),
      let list = String(validating: Array(info), as: UTF8.self),
      let opaque = Self.entry(Self.seedKey, in: list).flatMap({ Data(base64Encoded: $0) }),
      let seed = try? JSONDecoder().decode(ReceiptSeed.self, from: opaque),
      assemble(info: Array(info), signature: signature, environment: seed.environment) == bytes
    else { return .notAuthentic }
    return .authentic(seed)
  }

  private func assemble(info: [UInt8], signature: [UInt8], environment: StoreEnvironment) -> [UInt8] {
    let leaf = pki.transaction.der
    let length = withUnsafeBytes(of: UInt32(leaf.count).bigEndian) { Array($0) }
    var entries = [
      ("signature", Data([Self.version] + signature + length + leaf).base64EncodedString()),
      ("purchase-info", Data(info).base64EncodedString()),
    ]
    if environment == .sandbox { entries.append(("environment", "Sandbox")) }
    entries += [("pod", environment == .sandbox ? "100" : "48"), ("signing-status", "0")]
    return Array(Self.list(entries).utf8)
  }

  private static func list(_ entries: [(String, String)]) -> String {
    "{\n" + entries.map { "\t\"\($0.0)\" = \"\($0.1)\";\n" }.joined() + "}"
  }

  private static func entry(_ name: String, in list: String) -> String? {
    let opening = "\"\(name)\" = \""
    for line in list.split(separator: "\n") {
      let entry = line.drop { $0 == "\t" || $0 == " " }
      if entry.hasPrefix(opening), entry.hasSuffix("\";") { return String(entry.dropFirst(opening.count).dropLast(2)) }
    }
    return nil
  }
}

/// One transaction in the field names of iOS 6: `expires_date` is in milliseconds, its text is
/// `expires_date_formatted`.
enum LegacyFields {
  static func fields(of row: CustomerState.Row, seed: ReceiptSeed) -> [(String, String)] {
    var fields = [
      ("quantity", "1"),
      ("product_id", row.product.id),
      ("transaction_id", seed.transactionID(slot: row.slot, number: row.number)),
      ("original_transaction_id", seed.transactionID(slot: row.slot, number: 0)),
      ("item_id", String(seed.environment.appItemID + 1)),
      ("bid", seed.bundleID),
      ("bvrs", ReceiptSeed.applicationVersion),
      ("unique_identifier", "c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5c5"),
    ]
    fields += DateTriplet.fields("purchase_date", row.purchasedAt)
    fields += DateTriplet.fields("original_purchase_date", row.originallyPurchasedAt)
    if let expires = row.expiresAt {
      fields += [
        ("expires_date", String(expires.milliseconds)),
        ("expires_date_formatted", expires.gmtText),
        ("expires_date_formatted_pst", expires.pacificText),
        ("web_order_line_item_id", String(seed.webOrderLineItemID(slot: row.slot, number: row.number))),
      ]
    }
    if let cancelled = row.cancelledAt {
      fields += DateTriplet.fields("cancellation_date", cancelled)
      fields.append(("cancellation_reason", String(row.cancellationReason)))
    }
    return fields
  }
}

/// The store's three forms of every date.
enum DateTriplet {
  static func fields(_ name: String, _ date: Timestamp) -> [(String, String)] {
    [(name, date.gmtText), (name + "_ms", String(date.milliseconds)), (name + "_pst", date.pacificText)]
  }
}
