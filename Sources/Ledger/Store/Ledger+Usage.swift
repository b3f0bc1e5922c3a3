package import Access
package import Entitlements
package import struct FoundationEssentials.Date
package import struct FoundationEssentials.TimeZone

/// The consumption of the catalog's features.
extension Ledger {
  /// Checks the rules of a meter and counts, in one durable step: of a thousand at once as many are let through as the
  /// rules allow. Of refusals the first of a window makes an event, and no other writes anything.
  package func consume(_ consuming: Consuming) async throws(LedgerError) -> ConsumingOutcome {
    try await engine.submit { tables in try ConsumeOperation(consuming: consuming, tables: tables).run() }
  }

  /// Gives back what was consumed under a key, once.
  package func giveBack(_ givingBack: GivingBack) async throws(LedgerError) -> GivingBackOutcome {
    try await engine.submit { tables in try GiveBackOperation(givingBack: givingBack, tables: tables).run() }
  }

  /// Sets how many of a thing a user of a tier has, where nobody else counts them.
  package func setCount(
    _ count: Int, of feature: Feature, of user: UserID, with tier: Tier, at now: Date
  ) async throws(LedgerError) {
    try await engine.submit { tables in
      try tables.noteLimit(feature.name, of: user, near: feature.isNear(count, limitOf: tier) ? tier : nil)
      let former = try tables.total(of: feature.name, of: user)
      if former == nil { try tables.note(UserProgress(seen: now.utcDay), of: user) }
      var total = former ?? FeatureTotal()
      guard total.total != count else { return }
      total.total = count
      try tables.save(total, of: feature.name, of: user)
      tables.changes.note(usageOf: user)
    }
  }

  /// A user's consumption, read in one snapshot.
  ///
  /// - Parameters:
  ///   - named: the zone to read in; `nil` for the user's, or else the usual one.
  ///   - questions: what the rules of each feature ask about in a zone.
  package func usage(
    of user: UserID, in named: TimeZone?, usual: TimeZone,
    _ questions: @escaping @Sendable (TimeZone) -> [FeatureName: Set<UsageQuestion>]
  ) async throws(LedgerError) -> UserUsage {
    try await readShort { tables in
      let zone = try named ?? tables.timeZone(of: user)?.zone ?? usual
      return UserUsage(
        zone: zone,
        usage: try Dictionary(
          uniqueKeysWithValues: questions(zone).map { feature, questions in
            (feature, try tables.usage(of: feature, of: user, questions))
          }))
    }
  }

  /// A number that grows with every commit that changes what `usage` says of a user: see `generation(of:)`.
  package func usageGeneration(of user: UserID) -> UInt64 { memory.usageGenerations[user] }
}
