package import Entitlements
import struct FoundationEssentials.Date

/// Support staff's operations on the ledger: the history of a user or purchase, and the two decisions that a person may
/// make.
package protocol SupportLedger: Ledger {
  /// Stores the reason for a support inquiry about a user, before Apple is asked. The user need not be known.
  /// - Returns: the note's ID, for the verdicts that it causes.
  func keepNote(_ note: Note, about user: UserID) async throws(LedgerError) -> NoteID

  /// The receipts behind the newest evidence of a user's purchases: each once, with what it proves.
  func receipts(of user: UserID, limit: Int) async throws(LedgerError) -> [OwnedReceipt]

  /// All events of a user, newest first.
  /// - Parameter before: where the previous page ended; `nil` begins with the newest.
  func timeline(of user: UserID, before: TimelinePosition?, limit: Int) async throws(LedgerError) -> TimelinePage

  /// The purchases under an original transaction ID, one per store that knows it, with their owners.
  func ownedPurchases(_ id: OriginalTransactionID) async throws(LedgerError) -> [OwnedPurchase]

  /// The evidence of unowned purchases under an original transaction ID, from notifications.
  func unclaimedPurchases(_ id: OriginalTransactionID) async throws(LedgerError) -> [SubscriptionEvidence]

  /// Whether the ledger has any record of a user: a verdict, a queued receipt, a note.
  func isKnown(_ user: UserID) async throws(LedgerError) -> Bool

  /// The purchases, owned or not, whose stored transactions include this ID.
  ///
  /// - Parameter deadline: when to give up.
  func purchases(
    with id: TransactionID, until deadline: ContinuousClock.Instant
  ) async throws(LedgerError) -> TransactionSearch

  /// Transfers a purchase to another user, on a person's decision. Both users are reevaluated in the same transaction.
  func transfer(_ transfer: Transfer) async throws(LedgerError) -> TransferOutcome
}
