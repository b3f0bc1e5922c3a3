internal import Dispatch
package import struct FoundationEssentials.Date

/// The retention of histories.
extension Ledger {
  /// Looks at some of the events from before a moment, in their order, and takes what nobody needs out of the histories whose
  /// they are: see `HistoryThinning`. A row of `thinned` stands for what went, in the same transaction.
  ///
  /// - Parameter limit: the most events that are looked at.
  package func thinHistory(before moment: Date, limit: Int) async throws(LedgerError) -> HistoryThinned {
    let isDue = try await read { tables in try tables.hasHistory(before: moment) }
    guard isDue else { return HistoryThinned() }
    return try await engine.submit { tables in try tables.thinHistory(before: moment, limit: limit) }
  }
}

extension RetentionReport {
  /// Reads a ledger beside a service that may have it open, as of the last commit.
  ///
  /// - Parameter moment: events from before it are old enough; `nil`: only what is gone is counted.
  package static func read(at place: LedgerPlace, before moment: Date?) async throws(LedgerOpenError) -> RetentionReport
  {
    try await LedgerVerification.reading(place) { tables in try tables.retentionReport(before: moment) }
  }
}
