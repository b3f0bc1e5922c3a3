/// The answer to `GET /v1/transactions/{original_transaction_id}`: one purchase for each of the two stores that knows
/// the ID.
public struct TransactionResponse: Codable, Hashable, Sendable {
  public var originalTransactionID: String
  public var purchases: [PurchaseResponse]

  public init(originalTransactionID: String, purchases: [PurchaseResponse]) {
    self.originalTransactionID = originalTransactionID
    self.purchases = purchases
  }

  enum CodingKeys: String, CodingKey {
    case originalTransactionID = "original_transaction_id"
    case purchases
  }
}

/// A purchase with its owner, and the present verdict on it alone.
public struct PurchaseResponse: Codable, Hashable, Sendable {
  public var originalTransactionID: String
  public var environment: EntitlementState.Environment
  public var userID: String
  @Nullable public var ownedSince: Date?
  public var state: ExplainedEntitlement
  /// Newest first; each of the kind `ownership_change`.
  public var ownershipChanges: [HistoryEvent]

  public init(
    originalTransactionID: String, environment: EntitlementState.Environment, userID: String, ownedSince: Date? = nil,
    state: ExplainedEntitlement, ownershipChanges: [HistoryEvent]
  ) {
    self.originalTransactionID = originalTransactionID
    self.environment = environment
    self.userID = userID
    self.ownedSince = ownedSince
    self.state = state
    self.ownershipChanges = ownershipChanges
  }

  enum CodingKeys: String, CodingKey {
    case originalTransactionID = "original_transaction_id"
    case environment
    case userID = "user_id"
    case ownedSince = "owned_since"
    case state
    case ownershipChanges = "ownership_changes"
  }
}
