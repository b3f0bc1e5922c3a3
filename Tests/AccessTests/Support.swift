import Entitlements
import Foundation
import Testing

@testable import Access

/// `2026-03-29 01:30` on the clocks of a zone.
func moment(_ text: String, in zone: String = "UTC") throws -> Date {
  let parts = text.split(whereSeparator: { "- :".contains($0) }).compactMap { Int($0) }
  var calendar = Calendar(identifier: .gregorian)
  calendar.timeZone = try #require(TimeZone(identifier: zone))
  var components = DateComponents()
  (components.year, components.month, components.day) = (parts[0], parts[1], parts[2])
  (components.hour, components.minute) = (parts.count > 3 ? parts[3] : 0, parts.count > 4 ? parts[4] : 0)
  return try #require(calendar.date(from: components))
}

/// A meter of which each tier has the rules given for it.
func meter(_ values: KeyValuePairs<Tier, [String]>) throws -> Feature {
  var allowances: [Tier: Allowance] = [:]
  for (tier, texts) in values { allowances[tier] = .meter(try MeterRule.rules(texts)) }
  return Feature(name: "trips", kind: .meter, values: allowances, tiers: values.map(\.key))
}

extension Feature {
  func access(
    for tier: Tier, at now: Date, in zone: Zone, amount: Int = 1, after consumptions: [Consumption]
  ) -> FeatureAccess {
    let attempt = Attempt(at: now, in: zone, amount: amount)
    return access(for: tier, attempt, usage: usage(for: tier, attempt, consumptions))
  }

  func usage(for tier: Tier, _ attempt: Attempt, _ consumptions: [Consumption]) -> Usage {
    Usage(total: consumptions.reduce(0) { $0 + $1.amount }, questions(for: tier, attempt)) {
      UsageAnswer(to: $0, from: consumptions)
    }
  }
}

/// A user of one tier who tries, at one moment after the other; what is let through is counted.
struct Trial {
  var feature: Feature
  var tier: Tier = "free"
  var zone = "UTC"
  var consumptions: [Consumption] = []

  init(_ rules: String..., zone: String = "UTC") throws {
    feature = try meter(["free": rules, "pro": ["unlimited"]])
    self.zone = zone
  }

  func ask(_ text: String, amount: Int = 1) throws -> FeatureAccess {
    let zone = try #require(Zone(named: zone))
    return feature.access(
      for: tier, at: try moment(text, in: self.zone), in: zone, amount: amount, after: consumptions)
  }

  /// Whether it is let through.
  mutating func attempt(_ text: String, amount: Int = 1) throws -> Bool {
    let isAllowed = try ask(text, amount: amount).isAllowed
    if isAllowed { consumptions.append(Consumption(moment: try moment(text, in: zone), amount: amount)) }
    return isAllowed
  }
}
