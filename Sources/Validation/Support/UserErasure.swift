package import Entitlements
package import Ledger
package import Logging

/// The erasure of a user, on the user's demand (GDPR, article 17; App Review Guideline 5.1.1(v)).
///
///     ledger, one transaction ─▶ the app's row ─▶ the log emptied
///
/// The row gets what a user has who never bought. While the store is away the outbox alone keeps the ID, until the row is
/// reset.
package struct UserErasure: Sendable {
  var verdicts: VerdictContext
  var ledger: Ledger

  package struct Outcome: Sendable {
    package var report: ErasureReport
    /// The state of the app's row: `none` where there was nothing to reset.
    package var write: ProfileWrite
  }

  /// Erases a user. Durable when it returns; a second call finds nothing more to do.
  ///
  /// - Parameter author: the name of the key that asked, for the log, which does not name the user.
  /// - Throws: an error of the ledger: repeat it. What was done before that is done.
  package func erase(_ user: UserID, author: String, logger: Logger) async throws(LedgerError) -> Outcome {
    let context = verdicts.evaluationContext
    let reset = verdicts.writeBack.map { _ in verdicts.rules.evaluate(user, [], at: context.evaluatedAt) }
    let report = try await ledger.erase(
      Erasure(user: user, reset: reset, evaluationContext: context, rowsClaimedUntil: verdicts.rowsClaim))
    let write: ProfileWrite =
      if report.resetsRow { await verdicts.write(report.user, .waiting, logger: logger) } else { .none }
    try await ledger.removeTraces()
    logger.notice(
      "a user was erased",
      metadata: [
        "by": "\(author)", "events": .stringConvertible(report.events),
        "purchases": .stringConvertible(report.purchases), "profile_write": "\(write.rawValue)",
      ])
    return Outcome(report: report, write: write)
  }
}
