extension Catalog {
  /// The product of a purchase, with its tier and how it ends; `nil` for an unknown product.
  ///
  /// A product of Apple's is listed, or unknown. For one that RevenueCat reported the first of these decides:
  ///
  ///     product ID                           listed
  ///     its part before `:`                  listed: Google Play names a product's base plan behind it
  ///     an entitlement that it unlocks       the name of a tier; the highest one
  ///
  /// A purchase without an end is for life: RevenueCat names no end there alone.
  ///
  /// The app itself is a lifetime product for those who had it early enough, and says nothing of others. Nor does the
  /// sandbox, where everybody had it in version 1.0 in 2013.
  package func product(of purchase: Purchase, in evidence: SubscriptionEvidence) -> Product? {
    if evidence.key.isOfApp {
      let rules = evidence.key.environment == .production ? originalPurchase.filter { $0.covers(purchase) } : []
      let best = rules.map(\.tier).max { rank(of: $0) < rank(of: $1) }
      return best.map { Product(tier: $0, kind: .lifetime) } ?? Product(tier: defaultTier, kind: .consumable)
    }
    let listed = products[purchase.productID]
    guard evidence.source == .revenuecat else { return listed }
    let id = purchase.productID.rawValue
    let found =
      listed
      ?? id.firstIndex(of: ":").flatMap { products[ProductID(String(id[..<$0]))] }
      ?? (evidence.unlocks[purchase.productID] ?? []).map { Tier($0) }.filter(lists).map(current)
      .max { rank(of: $0) < rank(of: $1) }.map { Product(tier: $0) }
    guard let found, found.kind == .subscription, purchase.expiresDate == nil else { return found }
    return Product(tier: found.tier, kind: .lifetime)
  }
}
