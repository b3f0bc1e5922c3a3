package import Entitlements

/// The part of the catalog that decides no verdict: offerings, and each tier's features.
package struct Plans: Hashable, Sendable {
  /// A tier with the name and the description that people read.
  package struct Plan: Hashable, Sendable {
    package let tier: Tier
    package let name: String?
    package let description: String?

    package init(tier: Tier, name: String? = nil, description: String? = nil) {
      self.tier = tier
      self.name = name
      self.description = description
    }
  }

  /// The period and the prices of a product, for receipts that do not name them.
  package struct Terms: Hashable, Sendable {
    package let period: BillingPeriod?
    /// By currency.
    package let prices: [String: Price]

    package init(period: BillingPeriod? = nil, prices: [String: Price] = [:]) {
      self.period = period
      self.prices = prices
    }
  }

  /// The tiers that RevenueCat's SDKs get as entitlements (`catalog.entitlements`).
  package enum EntitlementScope: String, Hashable, Sendable, CaseIterable {
    /// Every tier up to the customer's, the lowest apart: a gate on `pro` lets a premium customer in.
    case cumulative
    /// The tiers that the customer pays for or was given, and no tier below them.
    case exact
  }

  /// All tiers, ascending.
  package let plans: [Plan]
  /// The terms of the products that have some.
  package let terms: [ProductID: Terms]
  /// In the order of the catalog.
  package let features: [Feature]
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
    self.offerings = offerings
    self.experiments = experiments
    self.entitlements = entitlements
    self.timeZone = timeZone
  }

  package func feature(named name: FeatureName) -> Feature? { features.first { $0.name == name } }

  /// The offering that a paywall shows: the one that is marked, else the first.
  package var currentOffering: Offering? { offerings.first(where: \.isCurrent) ?? offerings.first }
}
