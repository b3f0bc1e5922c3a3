package import Entitlements
internal import struct FoundationEssentials.Date

/// Ends a period now, by a person's decision, and reevaluates the user. It stays in the list of what was given.
package struct EndGiven: LedgerOperation {
  package enum Outcome: Hashable, Sendable {
    case ended(GivenRecord)
    /// It was over before. Nothing was written.
    case over(GivenRecord)
    /// The user was never given this.
    case unknown
  }

  package var id: GivenPeriod.ID
  package var user: UserID
  package var note: Note
  package var evaluationContext: EvaluationContext

  package init(_ id: GivenPeriod.ID, of user: UserID, note: Note, _ evaluationContext: EvaluationContext) {
    (self.id, self.user) = (id, user)
    (self.note, self.evaluationContext) = (note, evaluationContext)
  }

  package func run(_ tables: LedgerTables) throws -> Outcome {
    guard let record = try tables.given.given(id), try record.user.key == tables.accounts.key(of: user),
      var account = try tables.accounts.account(of: user)
    else { return .unknown }
    guard record.endedAt == nil, evaluationContext.evaluatedAt < record.period.endsAt else { return .over(record) }
    let noteID = try tables.events.append(note)
    try tables.given.end(id, endedAt: evaluationContext.recordedAt)
    account.given.removeAll { $0.id == id }
    try account.reevaluate(by: evaluationContext, tables, requestID: note.requestID, note: noteID)
    guard let ended = try tables.given.given(id) else { return .unknown }
    try tables.given.appendEnd(of: ended, over: account, evaluationContext)
    return .ended(ended)
  }
}

extension GivenTable {
  /// Ends a trial whose last session was used.
  func endUsedUp(
    _ id: GivenPeriod.ID, of user: UserID, requestID: String, _ evaluationContext: EvaluationContext
  ) throws {
    guard var account = try tables.accounts.account(of: user) else { throw StoredForm.Unstorable() }
    try end(id, endedAt: evaluationContext.evaluatedAt)
    account.given.removeAll { $0.id == id }
    try account.reevaluate(by: evaluationContext, tables, requestID: requestID)
    if let ended = try given(id) { try appendEnd(of: ended, over: account, evaluationContext) }
  }

  /// Records the verdicts of users whose periods are over by now.
  /// - Returns: how many periods ended, and those that did not, as their users cannot be read.
  func endOverdue(
    _ evaluationContext: EvaluationContext, limit: Int
  ) throws -> (ended: Int, unreadable: [GivenPeriod.ID]) {
    let over = try given(endedAt: evaluationContext.evaluatedAt, limit: limit)
    let users = Dictionary(grouping: over, by: \.user).sorted { $0.key.rawValue < $1.key.rawValue }
    let unreadable = try tables.undoingUnreadable(users) { user, records in
      guard var account = try tables.accounts.account(of: user), let last = records.last else {
        throw StoredForm.Unstorable()
      }
      for record in records { try end(record.period.id, endedAt: nil) }
      let ids = Set(records.map(\.period.id))
      account.given.removeAll { ids.contains($0.id) }
      try account.reevaluate(by: evaluationContext, tables, requestID: last.requestID)
      for record in records { try appendEnd(of: record, over: account, evaluationContext) }
    }
    .flatMap { $0.value.map(\.period.id) }
    return (over.count - unreadable.count, unreadable)
  }

  /// Has the periods go on that a wrong clock has ended, and begin that it gave in the future; records their users' verdicts.
  /// - Returns: how many periods changed, and those that did not, as their users cannot be read.
  func correct(
    after first: GivenPeriod.ID, through last: GivenPeriod.ID, _ evaluationContext: EvaluationContext,
    tolerance: Duration
  ) throws -> (changed: Int, unreadable: [GivenPeriod.ID]) {
    let now = evaluationContext.evaluatedAt
    let mistimed = try mistimed(after: first, at: now, tolerance: tolerance, limit: Int(last - first))
      .filter { $0.period.id <= last && !$0.user.isErased }
    let users = Dictionary(grouping: mistimed, by: \.user).sorted { $0.key.rawValue < $1.key.rawValue }
    let unreadable = try tables.undoingUnreadable(users) { user, records in
      guard var account = try tables.accounts.account(of: user), let last = records.last else {
        throw StoredForm.Unstorable()
      }
      let running = Set(account.given.map(\.id))
      for record in records { try reopen(record.period.id, at: now) }
      account.given = try notOver(to: account.user)
      try account.reevaluate(by: evaluationContext, tables, requestID: last.requestID)
      for record in records where !running.contains(record.period.id) {
        try appendReturn(of: record, at: evaluationContext.recordedAt)
      }
    }
    .flatMap { $0.value.map(\.period.id) }
    return (mistimed.count - unreadable.count, unreadable)
  }

  /// Appends the event of a period that goes on after an end that was none.
  private func appendReturn(of record: GivenRecord, at now: Date) throws {
    guard let record = try given(record.period.id) else { throw StoredForm.Unstorable() }
    guard let trial = try tables.trials.trial(record.period.id) else {
      return try tables.changeEvents.append(
        .grantStarted, of: record.user, at: now, ChangeEvent.Detail(record))
    }
    try tables.trials.appendStart(of: trial, record, at: now)
  }

  /// Appends the event of a period's end. A trial whose user bought as much since was converted, and has an event of that.
  func appendEnd(of record: GivenRecord, over account: Account, _ context: EvaluationContext) throws {
    var detail = ChangeEvent.Detail(record)
    let isTrial = record.period.kind == .trial
    if isTrial {
      let hasBought = try context.hasBought(
        account.user, tables.pastTransactions.wholeEvidence(of: account), since: record.period.startsAt)
      if hasBought, try context.covers(record.period, of: account.user, tables.purchases.evidence(of: account)) {
        return
      }
      let trial = try tables.trials.trial(record.period.id)
      (detail.trial, detail.device) = (trial?.name, trial?.device.rawValue)
    }
    // The verdict says what the user still has.
    try tables.changeEvents.append(
      isTrial ? .trialExpired : .grantEnded, of: account.user, at: context.recordedAt, verdict: account.verdict, detail)
  }
}
