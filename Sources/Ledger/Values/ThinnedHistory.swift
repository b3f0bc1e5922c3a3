package import struct FoundationEssentials.Date

/// A stretch of a user's history that retention has taken out.
package struct ThinnedHistory: Hashable, Sendable {
  /// The numbers of its newest and its oldest event.
  package var newest: Int64
  package var oldest: Int64
  /// The event before it; `nil`: the history began with it.
  package var previous: Int64?
  package var events: Int
  /// The verdicts among the events.
  package var verdicts: Int
  package var firstAt: Date
  package var lastAt: Date
  /// Over the events, the oldest first.
  var digest: [UInt8]

  /// The stretch together with the one right before it.
  func following(_ older: ThinnedHistory) -> ThinnedHistory {
    var both = self
    (both.oldest, both.previous, both.firstAt) = (older.oldest, older.previous, older.firstAt)
    both.events += older.events
    both.verdicts += older.verdicts
    return both
  }
}

/// What one turn of retention did.
package struct HistoryThinned: Hashable, Sendable {
  /// The events that were looked at; as many as the limit means that there may be more.
  package var examined = 0
  package var removed = 0
}

/// What retention has taken out of a ledger, and what it would.
package struct RetentionReport: Hashable, Sendable {
  package var events = 0
  /// Events that are old enough, and those among them that nobody needs.
  package var old = 0
  package var needless = 0
  /// Users of whom something would go.
  package var users = 0
  /// Events that are gone already.
  package var removed = 0
}
