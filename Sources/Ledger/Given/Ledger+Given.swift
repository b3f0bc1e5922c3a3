package import Entitlements
package import struct FoundationEssentials.Date

/// Access that was given and not bought.
extension Ledger {
  /// Records the verdicts of users whose periods are over.
  /// - Parameter onUnreadable: gets the periods of users who cannot be read. They do not end yet.
  /// - Returns: how many periods ended.
  package func endOverdueGiven(
    _ evaluationContext: EvaluationContext, onUnreadable: ([GivenPeriod.ID]) -> Void = { _ in }
  ) async throws(LedgerError) -> Int {
    // Usually there is nothing to end, and a write costs an fsync.
    guard try await read({ tables in try tables.given.hasAny(endedAt: evaluationContext.evaluatedAt) }) else {
      return 0
    }
    let end = try await engine.submit { tables in try tables.given.endOverdue(evaluationContext, limit: 500) }
    if !end.unreadable.isEmpty { onUnreadable(end.unreadable) }
    return end.ended
  }

  /// Puts right what a wrong clock did to given periods, once it is right itself.
  /// - Parameters:
  ///   - tolerance: the largest difference between two right clocks.
  ///   - onUnreadable: gets the periods of users who cannot be read. They stay as they are.
  /// - Returns: how many periods changed.
  package func correctGiven(
    _ evaluationContext: EvaluationContext, tolerance: Duration, onUnreadable: ([GivenPeriod.ID]) -> Void = { _ in }
  ) async throws(LedgerError) -> Int {
    let now = evaluationContext.evaluatedAt
    var (count, last): (Int, GivenPeriod.ID) = (0, 0)
    while let end = try await read({ [last] tables in
      try tables.given.mistimed(after: last, at: now, tolerance: tolerance, limit: 100).last?.period.id
    }) {
      let part = try await engine.submit { [last] tables in
        try tables.given.correct(after: last, through: end, evaluationContext, tolerance: tolerance)
      }
      if !part.unreadable.isEmpty { onUnreadable(part.unreadable) }
      count += part.changed
      last = end
    }
    return count
  }

  /// Everything that was ever given to a user, the newest first.
  package func given(to user: UserID, limit: Int) async throws(LedgerError) -> [GivenRecord] {
    try await read { tables in try tables.given.given(to: UserID(tables.accounts.key(of: user)), limit: limit) }
  }
}

/// A given period as the ledger keeps it: by whom and why, and whether somebody ended it early.
package struct GivenRecord: Hashable, Sendable {
  package var user: UserID
  package var period: GivenPeriod
  /// When it was ended early; `period.endsAt` is the end that was planned.
  package var endedAt: Date?
  /// The name of the key that gave it.
  package var author: String
  package var note: String?
  package var requestID: String
  package var recordedAt: Date

  /// The first moment that is no longer part of it.
  package var endsAt: Date { min(endedAt ?? period.endsAt, period.endsAt) }
}
