package import Entitlements
import struct FoundationEssentials.Date

/// What people who answer for the service ask of the ledger: the whole story of a user or of a purchase, and the two things
/// that a person may decide.
package protocol SupportLedger: Ledger {
  /// Keeps why somebody has Apple asked anew about a user, before Apple is asked. The user need not be known.
  /// - Returns: the note's name, for the verdicts that come of it.
  func keepNote(_ note: Note, about user: UserID) async throws(LedgerError) -> NoteID

  /// The receipts that the newest evidence of a user's purchases came from: each once, with what it proves.
  func receipts(of user: UserID, limit: Int) async throws(LedgerError) -> [OwnedReceipt]

  /// Everything that happened to a user, newest first.
  /// - Parameter before: where the page before ended; `nil` begins with the newest.
  func timeline(of user: UserID, before: TimelinePosition?, limit: Int) async throws(LedgerError) -> TimelinePage

  /// The purchases under an original transaction ID, one per store that knows it, with who owned each.
  func ownedPurchases(_ id: OriginalTransactionID) async throws(LedgerError) -> [OwnedPurchase]

  /// What notifications have told of purchases under an original transaction ID that nobody owns.
  func unclaimedPurchases(_ id: OriginalTransactionID) async throws(LedgerError) -> [SubscriptionEvidence]

  /// Whether a user has left any trace: a verdict, a receipt that waits, a note.
  func isKnown(_ user: UserID) async throws(LedgerError) -> Bool

  /// The purchases, owned or not, of whose kept transactions one has this ID.
  ///
  /// - Parameter deadline: when to give up.
  func purchases(
    with id: TransactionID, until deadline: ContinuousClock.Instant
  ) async throws(LedgerError) -> TransactionSearch

  /// Hands a purchase to another user, on the word of a person. Both are judged anew in the same transaction.
  func transfer(_ transfer: Transfer) async throws(LedgerError) -> TransferOutcome
}
