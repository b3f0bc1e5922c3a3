package import Entitlements

/// A purchase at Apple's, as a search for refunds comes to it.
package struct RefundQuestion: Hashable, Sendable {
  /// The place in the order of the search.
  package var place: Int64
  package var evidence: SubscriptionEvidence
  package var owner: UserID
  package var bundleID: BundleID

  package var key: SubscriptionKey { evidence.key }
}

/// The ledger's knowledge of a transaction that Apple calls refunded.
package enum RefundKnowledge: Hashable, Sendable {
  /// No user has the purchase.
  case unowned
  /// The refund is known.
  case known(owner: UserID)
  case new(owner: UserID)

  package var owner: UserID? {
    switch self {
    case .unowned: nil
    case .known(let owner), .new(let owner): owner
    }
  }
}
