/// The result of one turn of retention.
package struct HistoryThinned: Hashable, Sendable {
  /// The events that were looked at; as many as the limit means that there may be more.
  package var examined = 0
  package var removed = 0
  /// Another replica was at it, so that nothing was looked at: there may be more.
  package var isBusy = false
}

/// The events that retention has taken out of a ledger, and those that it would.
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
