package import Entitlements
package import struct FoundationEssentials.Date

/// Changes the end or the sessions of a trial that was begun, and reevaluates its user: by a decision of a person's or of the
/// app's server. A trial that is over begins again where that leaves it something.
package struct AmendTrial: LedgerOperation {
  package var device: DeviceID
  /// `nil`: the user whose trial was begun on the device.
  package var user: UserID?
  /// `nil`: as it is.
  package var endsAt: Date?
  /// `nil`: as it is.
  package var sessionsTotal: Int?
  package var note: Note
  package var evaluationContext: EvaluationContext
  /// Until when the app's row is claimed for the caller: see `LedgerEntry`.
  package var rowsClaimedUntil: Date?

  package init(
    device: DeviceID, user: UserID?, endsAt: Date?, sessionsTotal: Int?, note: Note,
    evaluationContext: EvaluationContext, rowsClaimedUntil: Date? = nil
  ) {
    self.device = device
    self.user = user
    self.endsAt = endsAt
    self.sessionsTotal = sessionsTotal
    self.note = note
    self.evaluationContext = evaluationContext
    self.rowsClaimedUntil = rowsClaimedUntil
  }

  /// - Returns: `nil` where there is no such trial.
  package func run(_ tables: LedgerTables) throws -> TrialRecord? {
    let now = evaluationContext.evaluatedAt
    guard var trial = try tables.trials.trial(of: user, on: device), !trial.user.isErased,
      let given = try tables.given.given(trial.id), var account = try tables.accounts.account(of: trial.user)
    else { return nil }
    let (wasRunning, wasUsedUp) = (trial.isRunning(at: now), trial.isUsedUp)
    let newEnd = endsAt ?? given.period.endsAt
    trial.sessionsTotal = sessionsTotal ?? trial.sessionsTotal
    // Somebody ended it, and nobody says a new end.
    let staysEnded = given.endedAt != nil && !wasUsedUp && endsAt == nil
    let isRunning = !trial.isUsedUp && !staysEnded && now < newEnd
    // A trial that is over before its end, and was ended by nobody, looks as a wrong clock leaves it.
    let earlyEnd = wasRunning || now < newEnd ? min(now, given.period.endsAt) : nil
    try tables.trials.amend(
      trial.id, endsAt: newEnd, endedAt: isRunning ? nil : given.endedAt ?? earlyEnd, isOver: !isRunning,
      sessions: trial.sessionsTotal)
    guard let amended = try tables.given.given(trial.id) else { throw StoredForm.Unstorable() }
    account.given.removeAll { $0.id == trial.id }
    if isRunning { account.given = (account.given + [amended.period]).sorted { $0.id < $1.id } }
    let noteID = try tables.events.append(note)
    try account.reevaluate(
      by: evaluationContext, tables, requestID: note.requestID, note: noteID,
      rowsClaimedUntil: rowsClaimedUntil)
    if wasRunning, !isRunning {
      try tables.given.appendEnd(of: amended, over: account, evaluationContext)
    } else if isRunning, !wasRunning {
      try tables.trials.appendStart(of: trial, amended, at: evaluationContext.recordedAt)
    }
    return try tables.trials.trial(trial.id)
  }
}

extension TrialTable {
  /// Appends the event of a trial that begins.
  func appendStart(of trial: TrialRecord, _ given: GivenRecord, at now: Date) throws {
    var detail = ChangeEvent.Detail(given)
    (detail.trial, detail.device) = (trial.name, trial.device.rawValue)
    try tables.changeEvents.append(.trialStarted, of: given.user, at: now, detail)
  }
}
