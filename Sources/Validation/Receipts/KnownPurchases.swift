import Entitlements

import struct FoundationEssentials.Date

/// Tells whether a purchase is news to the ledger.
///
/// A subscription bought again keeps its original transaction ID, so that ID alone does not make a purchase known: its
/// transaction has to be, or a period of the same subscription that lasts at least as long.
struct KnownPurchases {
  private struct Subscription {
    var transactions: Set<TransactionID>
    var end: Date?
  }

  /// Subscriptions by original transaction ID: one for each store that knows the ID.
  private var subscriptions: [OriginalTransactionID: [Subscription]] = [:]

  /// - Parameter evidence: what is granted only provisionally does not make a purchase known.
  init(_ evidence: [SubscriptionEvidence]) {
    for item in evidence where item.provisionalUntil == nil {
      subscriptions[item.key.originalTransactionID, default: []].append(
        Subscription(
          transactions: Set(item.purchases.map(\.transactionID)), end: item.purchases.compactMap(\.expiresDate).max()))
    }
  }

  /// A receipt need not say which store it is of, so every store that knows the ID has to know the purchase.
  func contains(_ purchase: Purchase) -> Bool {
    guard let known = subscriptions[purchase.originalTransactionID] else { return false }
    return known.allSatisfy { subscription in
      if subscription.transactions.contains(purchase.transactionID) { return true }
      guard let expires = purchase.expiresDate, let end = subscription.end else { return false }
      return expires <= end
    }
  }
}
