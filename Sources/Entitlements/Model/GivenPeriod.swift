package import struct FoundationEssentials.Date

/// A period of access that was given and not bought: by support, in a promotion, at a migration, or as a trial.
///
/// Both its ends are known, so that it needs no answer from Apple and is never held beyond its end.
package struct GivenPeriod: Hashable, Codable, Sendable {
  package typealias ID = Int64

  /// Why it was given.
  package enum Kind: String, Hashable, Codable, Sendable, CaseIterable {
    case support, promotion, tester, migration, trial
  }

  /// The ledger's number.
  package var id: ID
  package var kind: Kind
  package var tier: Tier
  package var startsAt: Date
  /// The first moment that is no longer part of it.
  package var endsAt: Date

  package init(id: ID, kind: Kind, tier: Tier, startsAt: Date, endsAt: Date) {
    self.id = id
    self.kind = kind
    self.tier = tier
    self.startsAt = startsAt
    self.endsAt = endsAt
  }

  package var source: EvidenceSource { kind == .trial ? .trial : .grant }

  package func isRunning(at now: Date) -> Bool { !now.isBefore(startsAt) && now.isBefore(endsAt) }
}
