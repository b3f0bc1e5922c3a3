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
  /// Used up by the app: it gives no tier.
  case consumable
  /// Runs for the product's period from the purchase, and is bought again: Apple names no end.
  case nonRenewing = "non_renewing"
}

/// The app's products, the tier that each grants, and the rank of tiers.
package struct Catalog: Hashable, Sendable {
  /// A product's tier, and how its purchase ends.
  package struct Product: Hashable, Sendable {
    /// The tier of a purchase; the lowest, which everybody has, for a consumable.
    package let tier: Tier
    package let kind: ProductKind
    /// The length of a period, where the catalog says; a non-renewing subscription has to have one.
    package let period: BillingPeriod?

    package init(tier: Tier, kind: ProductKind = .subscription, period: BillingPeriod? = nil) {
      self.tier = tier
      self.kind = kind
      self.period = period
    }
  }

  package enum Invalid: Error, Hashable {
    case noTiers
    case duplicateTier(Tier)
    case unknownTier(Tier, of: ProductID)
    case unknownSuccessor(Tier, of: Tier)
    case noPeriod(ProductID)
    case unknownOriginalTier(Tier)
  }

  /// Ascending; the first is the tier of a user without purchases.
  package let tiers: [Tier]
  package let products: [ProductID: Product]
  package let defaultTier: Tier
  /// The tiers of today by the names that they had: a verdict that was recorded then means them.
  package let formerNames: [Tier: Tier]
  /// The rules for customers who had the app before it sold subscriptions.
  package let originalPurchase: [OriginalPurchaseRule]
  private let ranks: [Tier: Int]
  let sellsNonRenewing: Bool

  /// - Parameter formerNames: names that tiers had before, with the names of today.
  /// - Throws: `Invalid` when there is no tier, a tier is named twice, today or before, a product grants a tier that is
  ///   not listed, or a non-renewing subscription has no period.
  package init(
    tiers: [Tier], products: [ProductID: Product], formerNames: [Tier: Tier] = [:],
    originalPurchase: [OriginalPurchaseRule] = []
  ) throws(Invalid) {
    guard let lowest = tiers.first else { throw .noTiers }
    var ranks: [Tier: Int] = [:]
    for (rank, tier) in tiers.enumerated() {
      guard ranks.updateValue(rank, forKey: tier) == nil else { throw .duplicateTier(tier) }
    }
    for (former, tier) in formerNames {
      guard let rank = tiers.firstIndex(of: tier) else { throw .unknownSuccessor(tier, of: former) }
      guard ranks.updateValue(rank, forKey: former) == nil else { throw .duplicateTier(former) }
    }
    var known: [ProductID: Product] = [:]
    for (id, product) in products {
      let tier = product.kind == .consumable ? lowest : product.tier
      guard tiers.contains(tier) else { throw .unknownTier(tier, of: id) }
      guard product.kind != .nonRenewing || product.period != nil else { throw .noPeriod(id) }
      known[id] = Product(tier: tier, kind: product.kind, period: product.period)
    }
    for rule in originalPurchase where !tiers.contains(rule.tier) { throw .unknownOriginalTier(rule.tier) }
    self.originalPurchase = originalPurchase
    self.tiers = tiers
    self.products = known
    self.sellsNonRenewing = known.values.contains { $0.kind == .nonRenewing }
    self.formerNames = formerNames
    self.defaultTier = lowest
    self.ranks = ranks
  }

  /// Whether a tier is listed, by the name of today or a former one.
  package func lists(_ tier: Tier) -> Bool { ranks[tier] != nil }

  /// The name of today of a tier; a tier that is not listed keeps its own.
  package func current(_ tier: Tier) -> Tier { formerNames[tier] ?? tier }

  /// The position of a tier in ascending order. An unlisted tier ranks above all: its worth is unknown, so any
  /// replacement may be less.
  package func rank(of tier: Tier) -> Int { ranks[tier] ?? .max }
}
