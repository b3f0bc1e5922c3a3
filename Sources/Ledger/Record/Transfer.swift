package import Entitlements
package import struct FoundationEssentials.Date

/// A person's decision that a purchase belongs to another user.
package struct Transfer: Sendable {
  package var key: SubscriptionKey
  package var to: UserID
  package var note: Note
  package var evaluationContext: EvaluationContext
  /// Until when the app's rows are claimed for the caller: see `LedgerEntry`.
  package var rowsClaimedUntil: Date?

  package init(
    key: SubscriptionKey, to: UserID, note: Note, evaluationContext: EvaluationContext, rowsClaimedUntil: Date? = nil
  ) {
    self.key = key
    self.to = to
    self.note = note
    self.evaluationContext = evaluationContext
    self.rowsClaimedUntil = rowsClaimedUntil
  }
}

/// The result of a transfer.
package enum TransferOutcome: Hashable, Sendable {
  /// The purchase was another user's.
  case moved(from: UserID)
  /// The purchase was this user's already: nothing was written.
  case unchanged
  /// The ledger has no such purchase.
  case unknown
}
