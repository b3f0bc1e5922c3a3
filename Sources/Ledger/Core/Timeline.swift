package import Entitlements
package import struct FoundationEssentials.Date

/// The reason for a person's action: kept for ever, and shown in the history.
package struct Note: Hashable, Sendable {
  /// The name of the API key that asked.
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

/// The ID of a stored note.
package struct NoteID: Hashable, Sendable {
  package let sequence: Int64

  init(sequence: Int64) { self.sequence = sequence }
}

/// A change of a purchase's owner.
package struct OwnershipChange: Hashable, Sendable {
  package var key: SubscriptionKey
  /// `nil` for the first owner.
  package var from: UserID?
  package var to: UserID
  package var recordedAt: Date
  package var requestID: String
  /// The support note that caused it.
  package var note: Note?
}

/// One event of a user's history.
package enum TimelineEvent: Sendable {
  /// - Parameters:
  ///   - before: the previous verdict that is kept; `nil` for the first.
  ///   - note: the support note that caused it.
  case verdict(HistoryEntry, before: Entitlement?, note: Note?)
  case ownership(OwnershipChange)
  /// A support inquiry with Apple.
  case inquiry(Note)
  /// Events that retention has taken out.
  case removed(ThinnedHistory)

  package var recordedAt: Date {
    switch self {
    case .verdict(let entry, _, _): entry.recordedAt
    case .ownership(let change): change.recordedAt
    case .inquiry(let note): note.recordedAt
    case .removed(let stretch): stretch.lastAt
    }
  }
}

/// A position between two events of a user: below the event with this number.
package struct TimelinePosition: Hashable, Sendable {
  package var sequence: Int64

  package init(_ sequence: Int64) { self.sequence = sequence }
}

/// A page of a user's events, the newest first.
package struct TimelinePage: Sendable {
  package var events: [TimelineEvent]
  /// Where the next page begins; `nil` at the end.
  package var next: TimelinePosition?
}
