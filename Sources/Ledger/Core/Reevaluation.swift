package import Entitlements
package import struct FoundationEssentials.Date

/// A user with all that the ledger knows of them.
package struct UserProfile: Sendable {
  package var user: UserID
  package var profile: LedgerProfile
}

/// How a user is reevaluated. Pure; it runs inside the ledger's transaction.
package struct Reevaluation: Sendable {
  /// The verdict that replaces the recorded one; `nil` if that stands.
  package typealias Successor =
    @Sendable (
      _ evidence: [SubscriptionEvidence], _ given: [GivenPeriod], _ recorded: Entitlement, _ now: Date
    ) -> Entitlement?

  /// The evaluation time.
  package var evaluatedAt: Date
  /// Our own clock, for the record only.
  package var recordedAt: Date
  package var successor: Successor
  package var approves: Approval

  package init(
    evaluatedAt: Date, recordedAt: Date, successor: @escaping Successor, approves: @escaping Approval = { _, _ in true }
  ) {
    self.evaluatedAt = evaluatedAt
    self.recordedAt = recordedAt
    self.successor = successor
    self.approves = approves
  }
}

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
