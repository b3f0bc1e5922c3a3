package import Entitlements
package import struct FoundationEssentials.Date

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
  package var isSnapshot = true
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
