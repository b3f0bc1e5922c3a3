package import struct FoundationEssentials.Date

/// The retention of histories.
extension Ledger {
  /// Looks at some of the events from before a moment, in their order, and takes what nobody needs out of the histories whose
  /// they are: see `HistoryThinning`. A row of `thinned` stands for what went, in the same transaction.
  ///
  /// - Parameter limit: the most events that are looked at.
  package func thinHistory(before moment: Date, limit: Int) async throws(LedgerError) -> HistoryThinned {
    guard try await read({ tables in try tables.retention.hasHistory(before: moment) }) else { return HistoryThinned() }
    return try await engine.submit { tables in try tables.retention.thin(before: moment, limit: limit) }
  }
}

extension RetentionReport {
  /// Reads a ledger beside a service that may have it open, as of the last commit.
  ///
  /// - Parameter moment: events from before it are old enough; `nil`: only what is gone is counted.
  package static func read(at place: LedgerPlace, before moment: Date?) async throws(LedgerOpenError) -> RetentionReport
  {
    try await LedgerVerification.reading(place) { tables in try tables.retention.report(before: moment) }
  }
}

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
  /// Users with events that nobody needs.
  package var users = 0
  /// Events that are gone already.
  package var removed = 0
}
