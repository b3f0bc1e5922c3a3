package import struct FoundationEssentials.Date

/// Users, as the catalog tells them apart for offers, by their purchases: grants and trials do not count.
package enum OfferAudience: Hashable, Sendable {
  /// Nothing was ever bought that gives a tier.
  case never
  /// Something was, and nothing of it gives access now.
  case expired
  /// A purchase gives this tier now.
  case tier(Tier)
}

extension EntitlementRules {
  /// The audiences that a user belongs to: one, or the tiers of several purchases.
  package func audiences(
    of user: UserID, _ evidence: [SubscriptionEvidence], at now: Date
  ) -> Set<OfferAudience> {
    // RevenueCat reports what it gave away as purchases at a store of its own.
    let evidence = evidence.filter { $0.key.originalTransactionID.store != "promotional" }
    let tiers = running(user, evidence, at: now).map { OfferAudience.tier(catalog.current($0.tier)) }
    if !tiers.isEmpty { return Set(tiers) }
    let isBought = evidence.contains { item in
      !item.key.isOfApp && accepts(item.key.environment, for: user)
        && item.purchases.contains {
          $0.ownership == .purchased && catalog.product(of: $0, in: item)?.kind != .consumable
        }
    }
    return isBought ? [.expired] : [.never]
  }
}
