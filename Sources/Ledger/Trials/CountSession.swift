package import Entitlements
internal import Access

/// Counts a session of the trial that a user has on a device; the last one of a number ends it.
package struct CountSession: LedgerOperation {
  package enum Outcome: Hashable, Sendable {
    /// It is counted, now or under the same key before.
    case counted(TrialRecord)
    /// The trial is over: nothing was counted.
    case over(TrialRecord)
    /// The user has no trial on this device.
    case unknown
  }

  package var user: UserID
  package var device: DeviceID
  package var idempotencyKey: String?
  package var requestID: String
  package var evaluationContext: EvaluationContext

  package init(
    of user: UserID, on device: DeviceID, idempotencyKey: String?, requestID: String,
    _ evaluationContext: EvaluationContext
  ) {
    (self.user, self.device, self.idempotencyKey) = (user, device, idempotencyKey)
    (self.requestID, self.evaluationContext) = (requestID, evaluationContext)
  }

  /// The trial as this write finds it decides: of many at once as many are counted as are left.
  package func run(_ tables: LedgerTables) throws -> Outcome {
    guard let trial = try tables.trials.trial(of: user, on: device) else { return .unknown }
    if let idempotencyKey {
      guard try tables.trials.addSession(idempotencyKey, to: trial.id) else { return .counted(trial) }
    }
    guard trial.isRunning(at: evaluationContext.evaluatedAt), !trial.isUsedUp else {
      // The key stays free.
      if let idempotencyKey { try tables.trials.removeSession(idempotencyKey, from: trial.id) }
      return .over(trial)
    }
    try tables.execute("UPDATE trial SET sessions_used = sessions_used + 1 WHERE id = ?", trial.id)
    try tables.trials.noteUse(of: trial.id, by: user, on: device)
    return .counted(try tables.trials.afterSessions(of: trial.id, requestID: requestID, evaluationContext))
  }
}

/// Counts the sessions that an app knows of and the ledger does not: the last one of a number ends a running trial. A trial
/// that is over stays as it ended.
package struct RaiseSessions: LedgerOperation {
  package var trial: TrialRecord
  package var sessions: Int
  package var requestID: String
  package var evaluationContext: EvaluationContext

  package init(of trial: TrialRecord, to sessions: Int, requestID: String, _ evaluationContext: EvaluationContext) {
    (self.trial, self.sessions) = (trial, sessions)
    (self.requestID, self.evaluationContext) = (requestID, evaluationContext)
  }

  package func run(_ tables: LedgerTables) throws -> TrialRecord {
    guard let now = try tables.trials.trial(trial.id) else { return trial }
    guard now.isRunning(at: evaluationContext.evaluatedAt), !now.isUsedUp else { return now }
    try tables.trials.raiseSessions(of: trial.id, to: min(sessions, now.sessionsTotal ?? TrialTerms.mostSessions))
    return try tables.trials.afterSessions(of: trial.id, requestID: requestID, evaluationContext)
  }
}

extension TrialTable {
  /// The trial after its sessions were counted: it has ended, if none is left.
  fileprivate func afterSessions(
    of id: GivenPeriod.ID, requestID: String, _ evaluationContext: EvaluationContext
  ) throws -> TrialRecord {
    guard let counted = try trial(id) else { throw StoredForm.Unstorable() }
    guard counted.isUsedUp else { return counted }
    try tables.given.endUsedUp(id, of: counted.user, requestID: requestID, evaluationContext)
    guard let ended = try trial(id) else { throw StoredForm.Unstorable() }
    return ended
  }
}
