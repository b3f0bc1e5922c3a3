import Entitlements
import Ledger

/// The purchases under one original transaction ID: one for each store that knows it.
struct TransactionBody: Encodable {
  var id: OriginalTransactionID
  var purchases: [PurchaseBody]

  enum CodingKeys: String, CodingKey {
    case originalTransactionID = "original_transaction_id"
    case purchases
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(id.rawValue, forKey: .originalTransactionID)
    try container.encode(purchases, forKey: .purchases)
  }
}

/// A purchase: whose it is, since when, and what it alone would give them now.
struct PurchaseBody: Encodable {
  var purchase: OwnedPurchase
  var entitlement: Entitlement

  enum CodingKeys: String, CodingKey {
    case originalTransactionID = "original_transaction_id"
    case environment
    case userID = "user_id"
    case ownedSince = "owned_since"
    case state
    case ownershipChanges = "ownership_changes"
  }

  func encode(to encoder: any Encoder) throws {
    let key = purchase.evidence.key
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(key.originalTransactionID.rawValue, forKey: .originalTransactionID)
    try container.encode(key.environment.rawValue, forKey: .environment)
    try container.encode(purchase.owner.rawValue, forKey: .userID)
    try container.encode(purchase.changes.first?.recordedAt, forKey: .ownedSince)
    try container.encode(ExplainedEntitlement(entitlement, after: nil), forKey: .state)
    try container.encode(
      purchase.changes.map { HistoryEntryBody(user: purchase.owner, event: .ownership($0)) },
      forKey: .ownershipChanges)
  }
}
