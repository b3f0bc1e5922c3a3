package import Entitlements
package import struct FoundationEssentials.Date

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

/// Why a person did something: kept for ever, and told in the history.
package struct Note: Hashable, Sendable {
  /// The name of the key that asked.
  package var author: String
  package var text: String
  package var requestID: String
  package var recordedAt: Date

  package init(author: String, text: String, requestID: String, recordedAt: Date) {
    self.author = author
    self.text = text
    self.requestID = requestID
    self.recordedAt = recordedAt
  }
}

/// Names a kept note.
package struct NoteID: Hashable, Sendable {
  package let sequence: Int64

  init(sequence: Int64) { self.sequence = sequence }
}

/// A kept receipt of a user's, and one of the purchases that it proves.
package struct OwnedReceipt: Hashable, Sendable {
  package var receipt: KeptReceipt
  package var key: SubscriptionKey
}

/// A purchase and whose it is.
package struct OwnedPurchase: Hashable, Sendable {
  package var evidence: SubscriptionEvidence
  package var owner: UserID
  /// The newest first; at most `changeLimit`.
  package var changes: [OwnershipChange]

  package static let changeLimit = 50
}

/// What a search for a transaction has found.
package struct TransactionSearch: Hashable, Sendable {
  package var keys: [SubscriptionKey] = []
  /// Whether everything was looked at that could have held more.
  package var isWhole = true
}

/// A purchase came to a user.
package struct OwnershipChange: Hashable, Sendable {
  package var key: SubscriptionKey
  /// `nil` for the first owner.
  package var from: UserID?
  package var to: UserID
  package var recordedAt: Date
  package var requestID: String
  /// The word of a person that brought it about.
  package var note: Note?
}

/// One thing that happened to a user.
package enum TimelineEvent: Sendable {
  /// - Parameters:
  ///   - before: the verdict that stood until then; `nil` for the first.
  ///   - note: what a person said who brought it about.
  case verdict(HistoryEntry, before: Entitlement?, note: Note?)
  case ownership(OwnershipChange)
  /// Somebody had Apple asked anew.
  case inquiry(Note)

  package var recordedAt: Date {
    switch self {
    case .verdict(let entry, _, _): entry.recordedAt
    case .ownership(let change): change.recordedAt
    case .inquiry(let note): note.recordedAt
    }
  }
}

/// A place between two events of a timeline: what is told next has lower numbers.
///
/// Three tables tell the story, each in its own order, which no clock can upset: the place is one number in each.
package struct TimelinePosition: Hashable, Sendable {
  package var verdict: Int64
  package var change: Int64
  package var inquiry: Int64

  package init(verdict: Int64, change: Int64, inquiry: Int64) {
    self.verdict = verdict
    self.change = change
    self.inquiry = inquiry
  }
}

package struct TimelinePage: Sendable {
  package var events: [TimelineEvent]
  /// Where the next page begins; `nil` where there is none.
  package var next: TimelinePosition?
}

/// The word of a person that a purchase is somebody else's.
package struct Transfer: Sendable {
  package var key: SubscriptionKey
  package var to: UserID
  package var note: Note
  package var rejudgement: Rejudgement
  /// Until when the app's rows are left to the caller: see `LedgerEntry`.
  package var rowsClaimedUntil: Date?

  package init(
    key: SubscriptionKey, to: UserID, note: Note, rejudgement: Rejudgement, rowsClaimedUntil: Date? = nil
  ) {
    self.key = key
    self.to = to
    self.note = note
    self.rejudgement = rejudgement
    self.rowsClaimedUntil = rowsClaimedUntil
  }
}

package enum TransferOutcome: Hashable, Sendable {
  /// It was another's until now.
  case moved(from: UserID)
  /// It was this user's already: nothing was written.
  case unchanged
  /// The ledger has no such purchase.
  case unknown
}
