package import Entitlements
package import struct FoundationEssentials.Date

/// A user with all that the ledger knows of them.
package struct UserProfile: Sendable {
  package var user: UserID
  package var profile: LedgerProfile
}

/// Users in the order of their IDs.
package struct UserPage: Sendable {
  package var users: [UserProfile] = []
  /// The users of the page who cannot be read.
  package var unreadable: [UserID] = []
  /// The last one that was looked at; `nil` at the end.
  package var last: UserID?
}

/// Whether the recorded verdict stands, though the rules say another one by now. Pure; it runs inside the ledger's
/// transaction.
package typealias Withholding =
  @Sendable (
    _ verdict: Entitlement, _ evidence: [SubscriptionEvidence], _ given: [GivenPeriod], _ recorded: Entitlement,
    _ now: Date
  ) -> Bool

/// The result of a reevaluation.
package enum ReevaluationOutcome: Hashable, Sendable {
  case recorded
  /// The recorded verdict stands.
  case unchanged
  /// The new verdict was not approved.
  case heldBack
}

/// The number of users with a tier from a product.
package struct AccessCount: Hashable, Sendable {
  package var tier: Tier
  package var product: ProductID
  package var isForLife: Bool
  package var users: Int

  package init(tier: Tier, product: ProductID, isForLife: Bool = false, users: Int) {
    self.tier = tier
    self.product = product
    self.isForLife = isForLife
    self.users = users
  }
}
