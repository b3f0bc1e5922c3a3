package import Entitlements
package import struct FoundationEssentials.Date

/// A given period as the ledger keeps it: by whom and why, and whether somebody ended it early.
package struct GivenRecord: Hashable, Sendable {
  package var user: UserID
  package var period: GivenPeriod
  /// When it was ended early; `period.endsAt` is the end that was planned.
  package var endedAt: Date?
  /// The name of the key that gave it.
  package var author: String
  package var note: String?
  package var requestID: String
  package var recordedAt: Date

  /// The first moment that is no longer part of it.
  package var endsAt: Date { min(endedAt ?? period.endsAt, period.endsAt) }
}

/// A decision to give a user a period of access.
package struct Giving: Sendable {
  package var user: UserID
  package var kind: GivenPeriod.Kind
  package var tier: Tier
  package var startsAt: Date
  package var endsAt: Date
  package var author: String
  /// Kept as a note in the user's history too.
  package var note: String?
  package var requestID: String
  /// A repeated key gives nothing a second time.
  package var idempotencyKey: String?
  package var evaluationContext: EvaluationContext
  /// Until when the app's row is claimed for the caller: see `LedgerEntry`.
  package var rowsClaimedUntil: Date?

  package init(
    user: UserID, kind: GivenPeriod.Kind, tier: Tier, startsAt: Date, endsAt: Date, author: String,
    note: String? = nil, requestID: String, idempotencyKey: String? = nil, evaluationContext: EvaluationContext,
    rowsClaimedUntil: Date? = nil
  ) {
    self.user = user
    self.kind = kind
    self.tier = tier
    self.startsAt = startsAt
    self.endsAt = endsAt
    self.author = author
    self.note = note
    self.requestID = requestID
    self.idempotencyKey = idempotencyKey
    self.evaluationContext = evaluationContext
    self.rowsClaimedUntil = rowsClaimedUntil
  }
}

/// The result of giving a period.
package enum GivingOutcome: Hashable, Sendable {
  /// It is recorded, and durable.
  case given(GivenRecord)
  /// The idempotency key was used for the same before.
  case repeated(GivenRecord)
  /// The idempotency key was used for something else. Nothing was recorded.
  case mismatch
}

/// The result of ending a period early.
package enum EndingOutcome: Hashable, Sendable {
  case ended(GivenRecord)
  /// It was over before. Nothing was written.
  case over(GivenRecord)
  /// The user was never given this.
  case unknown
}
