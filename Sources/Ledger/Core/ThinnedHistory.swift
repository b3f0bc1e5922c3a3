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
