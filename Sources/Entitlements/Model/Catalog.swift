/// One of the app's plans, by its name in the catalog.
package struct Tier: Identifier {
  package let rawValue: String
  package init(rawValue: String) { self.rawValue = rawValue }
}

/// How a product ends.
package enum ProductKind: String, Hashable, Codable, Sendable, CaseIterable {
  /// Auto-renewable: runs until `expires_date`.
  case subscription
  /// Non-consumable: never ends by itself.
  case lifetime
}

/// The app's products, the tier that each grants, and the rank of tiers.
package struct Catalog: Hashable, Sendable {
  package struct Product: Hashable, Sendable {
    package let tier: Tier
    package let kind: ProductKind

    package init(tier: Tier, kind: ProductKind = .subscription) {
      self.tier = tier
      self.kind = kind
    }
  }

  /// Why a catalog is invalid.
  package enum Invalid: Error, Hashable {
    case noTiers
    case duplicateTier(Tier)
    case unknownTier(Tier, of: ProductID)
  }

  /// Ascending; the first is the tier of a user without purchases.
  package let tiers: [Tier]
  package let products: [ProductID: Product]
  /// The lowest tier.
  package let defaultTier: Tier
  private let ranks: [Tier: Int]

  /// - Throws: `Invalid` when there is no tier, a tier is named twice, or a product grants a tier that is not listed.
  package init(tiers: [Tier], products: [ProductID: Product]) throws(Invalid) {
    guard let lowest = tiers.first else { throw .noTiers }
    var ranks: [Tier: Int] = [:]
    for (rank, tier) in tiers.enumerated() {
      guard ranks.updateValue(rank, forKey: tier) == nil else { throw .duplicateTier(tier) }
    }
    for (id, product) in products where ranks[product.tier] == nil {
      throw .unknownTier(product.tier, of: id)
    }
    self.tiers = tiers
    self.products = products
    self.defaultTier = lowest
    self.ranks = ranks
  }

  /// The position of a tier in ascending order. An unlisted tier ranks above all: what it gave is unknown, so any
  /// replacement may be less.
  package func rank(of tier: Tier) -> Int { ranks[tier] ?? .max }
}
