package import Entitlements
package import Ledger

package import struct FoundationEssentials.Date

/// The verdict on a user as reads show it: from the ledger, without asking Apple.
package struct Standing: Sendable {
  package var entitlement: Entitlement
  /// The state of the user's row.
  package var write: ProfileWrite
  package var isKnown: Bool
  package var validity: Validity

  /// The conditions under which a read may be shown again.
  package struct Validity: Sendable {
    /// The ledger's number of the user from before it was read.
    package var generation: UInt64
    package var readAt: Date
    /// The time at which it may change by itself; `nil` for never.
    package var until: Date?

    package func holds(at now: Date, _ generation: UInt64) -> Bool {
      self.generation == generation && readAt <= now && (until.map { now < $0 } ?? true)
    }
  }
}

/// Reads verdicts as they stand now.
package struct StandingReader: Sendable {
  package var ledger: Ledger
  package var rules: EntitlementRules
  package var hasProfileStore: Bool

  /// Unknown and never bought read the same.
  package func standing(of user: UserID, at now: Date) async throws(LedgerError) -> Standing {
    let generation = ledger.generation(of: user)
    let profile = try await ledger.profile(of: user)
    let entitlement = rules.standing(of: user, profile, at: now)
    let write: ProfileWrite =
      if hasProfileStore, user.mayHaveRow, let profile {
        ProfileWrite(profile.write).adjusted(forShown: entitlement, recorded: profile.entitlement)
      } else { .none }
    return Standing(
      entitlement: entitlement, write: write, isKnown: profile != nil,
      validity: Standing.Validity(
        generation: generation, readAt: now,
        // The ID may mean another user with the next request.
        until: user.isAnonymous
          ? now
          : rules.nextChange(
            of: profile?.evidence ?? [], given: profile?.given ?? [], recorded: profile?.entitlement, after: now)))
  }
}
