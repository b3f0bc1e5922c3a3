package import Access
package import Entitlements
package import struct FoundationEssentials.Date

/// Gives back what was consumed under a key, once.
package struct GiveBack: LedgerOperation {
  package enum Outcome: Sendable {
    case returned(FeatureAccess)
    /// Nothing is counted under the key.
    case unknown
    /// The consumption is older than a user may give back, or too many came after it.
    case tooLate
    /// The user gave back as often as the rules allow to consume.
    case tooOften
  }

  package var user: UserID
  package var feature: Feature
  package var tier: Tier
  package var idempotencyKey: String
  package var now: Date
  package var zone: ZoneChoice
  /// The user asks, and not a server. A user may do so for a while only, and only so much.
  package var isByUser: Bool

  package init(
    user: UserID, feature: Feature, tier: Tier, idempotencyKey: String, now: Date, zone: ZoneChoice, isByUser: Bool
  ) {
    self.user = user
    self.feature = feature
    self.tier = tier
    self.idempotencyKey = idempotencyKey
    self.now = now.inWholeMilliseconds
    self.zone = zone
    self.isByUser = isByUser
  }

  /// The time after a consumption in which a user may give it back.
  package static let patience = Duration.seconds(600)
  /// A user gives back one of so many last consumptions: each later one is written again.
  static let mostLater = 1_000

  package func run(_ tables: LedgerTables) throws -> Outcome {
    let user = UserID(try tables.accounts.key(of: user))
    guard
      let consumption = try tables.usage.consumption(of: feature.name, of: user, under: idempotencyKey),
      now < consumption.consumedAt.advanced(by: Consume.keyLifetime),
      var total = try tables.usage.total(of: feature.name, of: user)
    else { return .unknown }
    let zone = try zone.resolved(for: user, at: now, tables).zone
    let attempt = Attempt(at: now, in: zone)
    if isByUser {
      guard now < consumption.consumedAt.advanced(by: Self.patience),
        total.nextNumber - consumption.number <= Self.mostLater
      else { return .tooLate }
      for limit in feature.returnLimits(for: tier, attempt) {
        let returns = try tables.usage.returns(of: feature.name, of: user, in: limit.range)
        let used = limit.countsTimes ? returns.times + 1 : returns.amount + consumption.amount
        guard used <= limit.maximum else { return .tooOften }
      }
    }
    try tables.usage.takeBack(consumption, of: feature.name, of: user)
    total.total = max(0, total.total - consumption.amount)
    try tables.usage.save(total, of: feature.name, of: user)
    tables.changes.invalidate(usageOf: user)
    let usage = try tables.usage.usage(of: feature.name, of: user, feature.questions(for: tier, attempt))
    return .returned(feature.access(for: tier, attempt, usage: usage))
  }
}
