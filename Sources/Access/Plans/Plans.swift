package import Entitlements

/// The part of the catalog that decides no verdict: offerings, and each tier's features.
package struct Plans: Hashable, Sendable {
  /// A tier with the name and the description that people read.
  package struct Plan: Hashable, Sendable {
    package let tier: Tier
    package let name: String?
    package let description: String?
    /// Whether it is sold. Users keep one that is not.
    package let isActive: Bool

    package init(tier: Tier, name: String? = nil, description: String? = nil, isActive: Bool = true) {
      self.tier = tier
      self.name = name
      self.description = description
      self.isActive = isActive
    }
  }

  /// The name of a product, whether it is sold, its period and prices, for receipts that do not name them, and its offers.
  package struct Terms: Hashable, Sendable {
    package let name: String?
    /// Purchases of one that is not sold count as before.
    package let isActive: Bool
    package let period: BillingPeriod?
    /// By currency.
    package let prices: [String: Price]
    /// In the order of the catalog.
    package let offers: [PromotionalOffer]
    /// The users who get the introductory offer; `nil` where the App Store alone decides.
    package let introductoryOffer: Set<OfferAudience>?

    package init(
      name: String? = nil, isActive: Bool = true, period: BillingPeriod? = nil, prices: [String: Price] = [:],
      offers: [PromotionalOffer] = [], introductoryOffer: Set<OfferAudience>? = nil
    ) {
      self.name = name
      self.isActive = isActive
      self.period = period
      self.prices = prices
      self.offers = offers
      self.introductoryOffer = introductoryOffer
    }

    /// The terms of a product that is no longer sold.
    package var retired: Terms {
      Terms(
        name: name, isActive: false, period: period, prices: prices, offers: offers,
        introductoryOffer: introductoryOffer)
    }
  }

  /// The tiers that RevenueCat's SDKs get as entitlements (`catalog.entitlements`).
  package enum EntitlementScope: String, Hashable, Sendable, CaseIterable {
    /// Every tier up to the customer's, the lowest apart: a gate on `pro` lets a premium customer in.
    case cumulative
    /// The tiers that the customer pays for or was given, and no tier below them.
    case exact

    /// The entitlements that a tier gives, ascending; none for the lowest. A tier that the catalog does not list gives no other.
    package func entitlements(of tier: Tier, in catalog: Catalog) -> [Tier] {
      let tier = catalog.current(tier)
      guard self == .cumulative, catalog.lists(tier) else { return catalog.rank(of: tier) > 0 ? [tier] : [] }
      return catalog.tiers.dropFirst().filter { catalog.rank(of: $0) <= catalog.rank(of: tier) }
    }
  }

  /// All tiers, ascending.
  package let plans: [Plan]
  /// The terms of the products that have some.
  package let terms: [ProductID: Terms]
  /// In the order of the catalog.
  package let features: [Feature]
  /// Without retired products, and without offerings of nothing else.
  package let offerings: [Offering]
  package let experiments: [Experiment]
  package let entitlements: EntitlementScope
  /// The zone of calendar windows, unless a user has one.
  package let timeZone: Zone

  package init(
    plans: [Plan], terms: [ProductID: Terms] = [:], features: [Feature] = [], offerings: [Offering] = [],
    experiments: [Experiment] = [], entitlements: EntitlementScope = .cumulative, timeZone: Zone
  ) {
    self.plans = plans
    self.terms = terms
    self.features = features
    self.offerings = offerings.compactMap { offering in
      let sold = offering.packages.filter { terms[$0.product]?.isActive ?? true }
      guard !sold.isEmpty || offering.packages.isEmpty else { return nil }
      return Offering(
        name: offering.name, isCurrent: offering.isCurrent, packages: sold, metadata: offering.metadata)
    }
    self.experiments = experiments
    self.entitlements = entitlements
    self.timeZone = timeZone
  }

  package func feature(named name: FeatureName) -> Feature? { features.first { $0.name == name } }

  /// The offering that a paywall shows: the one that is marked, else the first.
  package var currentOffering: Offering? { offerings.first(where: \.isCurrent) ?? offerings.first }
}
