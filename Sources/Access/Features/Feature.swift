package import Entitlements

/// The name of a feature in the catalog: `oracle_questions`.
package struct FeatureName: Identifier {
  package let rawValue: String
  package init(rawValue: String) { self.rawValue = rawValue }
}

/// A tier's share of a feature: on or off, or how much.
package enum Allowance: Hashable, Sendable {
  case flag(Bool)
  /// How many may exist; `nil` is unlimited.
  case limit(Int?)
  /// How much may be consumed: every rule has to hold. Without a rule it is unlimited.
  case meter([MeterRule])
}

/// A feature of the app, with the allowance of each tier.
package struct Feature: Hashable, Sendable {
  /// The kind of a feature: a switch, a number of things, or consumption.
  package enum Kind: String, Hashable, Sendable, CaseIterable {
    case flag
    /// How many of a thing may exist.
    case limit
    /// How much may be consumed.
    case meter

    /// The allowance below the first tier that the catalog names: off, or zero.
    var nothing: Allowance {
      switch self {
      case .flag: .flag(false)
      case .limit: .limit(0)
      case .meter: .meter([MeterRule(maximum: 0, window: .total)])
      }
    }
  }

  package let name: FeatureName
  package let kind: Kind
  /// All tiers of the catalog, ascending.
  package let tiers: [Tier]
  /// The allowances in the order of `tiers`.
  let allowances: [Allowance]
  /// The tiers that are no longer sold: nobody is sent to them.
  let retired: Set<Tier>

  /// - Parameters:
  ///   - values: the allowances that the catalog names. Another tier has that of the next lower one that is named;
  ///     below all of them, nothing.
  ///   - tiers: all tiers of the catalog, ascending.
  ///   - retired: those that are no longer sold.
  package init(
    name: FeatureName, kind: Kind, values: [Tier: Allowance], tiers: [Tier], retired: Set<Tier> = []
  ) {
    self.name = name
    self.kind = kind
    self.tiers = tiers
    self.retired = retired
    var last = kind.nothing
    allowances = tiers.map { tier in
      last = values[tier] ?? last
      return last
    }
  }

  /// The allowance of a tier. A tier that the catalog does not list ranks above all, as in `Catalog.rank(of:)`.
  package func allowance(of tier: Tier) -> Allowance {
    tiers.firstIndex(of: tier).map { allowances[$0] } ?? allowances.last ?? kind.nothing
  }

  /// The places of the tiers above one, ascending.
  func places(above tier: Tier) -> Range<Int> {
    let place = tiers.firstIndex(of: tier) ?? tiers.count
    return min(place + 1, tiers.count)..<tiers.count
  }

  /// The longest look back of any tier's rules. Of older consumption only the sum is needed; a ledger should keep more,
  /// for a later catalog with longer rules.
  package var horizon: Duration {
    var horizon = Duration.zero
    for case .meter(let rules) in allowances {
      for rule in rules { horizon = max(horizon, rule.horizon) }
    }
    return horizon
  }

  /// Whether a count is close to a tier's limit: all but one of a limit below ten, all but two of others.
  package func isNear(_ count: Int, limitOf tier: Tier) -> Bool {
    guard case .limit(let limit?) = allowance(of: tier), limit > 0, count > 0 else { return false }
    return count >= limit - (limit < 10 ? 1 : 2)
  }
}
