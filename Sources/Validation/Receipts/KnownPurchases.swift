import Entitlements

import struct FoundationEssentials.Date

/// The purchases that the ledger knows.
///
/// A subscription that is bought again keeps its original transaction ID, so the ID alone is not enough: the ledger has
/// to know the transaction, or a period of the same subscription that ends no earlier.
struct KnownPurchases {
  private struct Subscription {
    var transactions: Set<TransactionID>
    var end: Date?
  }

  /// Subscriptions by original transaction ID: one for each store that knows the ID.
  private var subscriptions: [OriginalTransactionID: [Subscription]] = [:]

  /// - Parameter evidence: provisional evidence makes no purchase known.
  init(_ evidence: [SubscriptionEvidence]) {
    for item in evidence where item.provisionalUntil == nil {
      subscriptions[item.key.originalTransactionID, default: []].append(
        Subscription(
          transactions: Set(item.purchases.map(\.transactionID)), end: item.purchases.compactMap(\.expiresDate).max()))
    }
  }

  /// Whether the purchase is known to every store that knows its ID: a receipt may not name its store.
  func contains(_ purchase: Purchase) -> Bool {
    guard let known = subscriptions[purchase.originalTransactionID] else { return false }
    return known.allSatisfy { subscription in
      if subscription.transactions.contains(purchase.transactionID) { return true }
      guard let expires = purchase.expiresDate, let end = subscription.end else { return false }
      return expires <= end
    }
  }
}
