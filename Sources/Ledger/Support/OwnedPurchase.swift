package import Entitlements

/// A user's stored receipt, with one of the purchases that it proves.
package struct OwnedReceipt: Hashable, Sendable {
  package var receipt: KeptReceipt
  package var key: SubscriptionKey
}

/// A purchase and its owner.
package struct OwnedPurchase: Hashable, Sendable {
  package var evidence: SubscriptionEvidence
  package var owner: UserID
  /// Changes of owner, newest first; at most `changeLimit`.
  package var changes: [OwnershipChange]

  package static let changeLimit = 50
}

/// The result of a search for a transaction.
package struct TransactionSearch: Hashable, Sendable {
  package var keys: [SubscriptionKey] = []
  /// Whether the ID is the web order line item of a transaction, and no transaction's own.
  package var isLineItem = false
  /// Whether the search covered everything that could match.
  package var isComplete = true
}
