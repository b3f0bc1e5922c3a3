package import Entitlements
package import struct FoundationEssentials.TimeZone

/// The part of the catalog that decides no verdict: what a paywall shows, and what each tier may do.
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

  /// Which tiers of a customer are entitlements to RevenueCat's SDKs (`catalog.entitlements`).
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
  package let timeZone: TimeZone

  package init(
    plans: [Plan], terms: [ProductID: Terms] = [:], features: [Feature] = [], offerings: [Offering] = [],
    experiments: [Experiment] = [], entitlements: EntitlementScope = .cumulative, timeZone: TimeZone
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

extension TimeZone {
  /// A zone by its name in the IANA database (`Europe/Berlin`), or `UTC`.
  ///
  /// - Returns: `nil` for anything else. Abbreviations are refused: `EST` has no summer time, `IST` names three zones.
  package init?(ianaName name: String) {
    let isPlain = name.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "0")...UInt8(ascii: "9"):
        true
      default: "/_+-".utf8.contains(byte)
      }
    }
    guard isPlain, name.utf8.count <= 64, name == "UTC" || name.utf8.contains(UInt8(ascii: "/")) else { return nil }
    self.init(identifier: name)
  }

  /// Its name in the IANA database; Foundation calls UTC by another one.
  package var ianaName: String { identifier == "GMT" ? "UTC" : identifier }
}
