internal import Access
internal import Entitlements
internal import struct FoundationEssentials.Date

/// Begins a trial inside an open transaction, if nothing that allows one has been used.
struct TrialStartOperation {
  let start: TrialStart
  let tables: LedgerTables

  func run() throws -> TrialStartOutcome {
    let outcome = try begin()
    if case .used(let key) = outcome { try appendRefusal(by: key) }
    return outcome
  }

  /// Appends the event of a refused trial, once a day of each user.
  private func appendRefusal(by key: TrialKey) throws {
    let now = start.evaluationContext.recordedAt
    guard
      try tables.admitsRefusalEvent(
        of: "trial \(start.terms.name)", to: start.user, at: now, until: now.advanced(by: RefusalEvents.trialPause))
    else { return }
    var detail = ChangeEvent.Detail()
    (detail.trial, detail.device, detail.refusedBy) = (start.terms.name, start.device.id.rawValue, key.rawValue)
    try tables.appendChangeEvent(.trialRefused, of: start.user, at: now, detail)
  }

  private func begin() throws -> TrialStartOutcome {
    let (user, device) = (start.user, start.device.id)
    let now = start.evaluationContext.recordedAt
    let there = try tables.newestTrial(on: device)
    let own = start.terms.oncePer.contains(.user) ? try tables.newestTrial(of: user) : nil
    if let known = own ?? there.flatMap({ $0.user == user ? $0 : nil }) {
      try tables.keep(start.device, of: user, at: now)
      return .known(known)
    }
    if start.terms.oncePer.contains(.device), there != nil || start.isUsedByApple { return .used(.device) }
    if start.terms.oncePer.contains(.storeAccount), let account = try tables.account(of: user),
      try tables.evidence(of: account).contains(where: { $0.purchases.contains(where: \.isTrial) })
    {
      return .used(.storeAccount)
    }
    if let used = try usedBefore() { return .used(used) }
    let startsAt = start.evaluationContext.evaluatedAt
    let outcome = try GivingOperation(
      giving: Giving(
        user: user, kind: .trial, tier: start.terms.tier, startsAt: startsAt,
        endsAt: startsAt.advanced(by: start.terms.length),
        author: start.author, requestID: start.requestID, evaluationContext: start.evaluationContext,
        rowsClaimedUntil: start.rowsClaimedUntil), tables: tables
    ).run()
    guard case .given(let record) = outcome else { throw StoredForm.Unstorable() }
    try tables.add(start, as: record.period.id)
    try tables.keep(start.device, of: user, at: now)
    try tables.noteExposures(of: record.user.key)
    guard let trial = try tables.trial(record.period.id) else { throw StoredForm.Unstorable() }
    var detail = ChangeEvent.Detail(record)
    (detail.trial, detail.device) = (trial.name, trial.device.rawValue)
    try tables.appendChangeEvent(.trialStarted, of: record.user, at: now, detail)
    return .started(trial)
  }

  /// The former use that refuses a trial to a user who was erased and is back under the same ID.
  private func usedBefore() throws -> TrialKey? {
    for former in try tables.formerSelves(of: start.user) {
      if start.terms.oncePer.contains(.user), try tables.newestTrial(of: former) != nil { return .user }
      if start.terms.oncePer.contains(.storeAccount), let account = try tables.account(of: former),
        try tables.evidence(of: account).contains(where: { $0.purchases.contains(where: \.isTrial) })
      {
        return .storeAccount
      }
    }
    return nil
  }
}

/// Counts a session of a trial; the last one of a number ends it.
struct TrialSessionOperation {
  let user: UserID
  let device: DeviceID
  let idempotencyKey: String?
  let requestID: String
  let evaluationContext: EvaluationContext
  let tables: LedgerTables

  func run() throws -> TrialSessionOutcome {
    guard let trial = try tables.trial(of: user, on: device) else { return .unknown }
    if let idempotencyKey {
      guard try tables.addSession(idempotencyKey, to: trial.id) else { return .counted(trial) }
    }
    guard evaluationContext.evaluatedAt < trial.endsAt else {
      // The key stays free.
      if let idempotencyKey { try tables.removeSession(idempotencyKey, from: trial.id) }
      return .over(trial)
    }
    try tables.countSession(of: trial.id)
    try tables.noteUse(of: trial.id, by: user, on: device)
    return .counted(try tables.afterSessions(of: trial.id, requestID: requestID, evaluationContext))
  }
}

/// Counts the sessions that an app claims to have used, where they are more than is known. A trial that is over stays as it
/// ended.
struct TrialClaimOperation {
  let trial: TrialRecord
  let sessions: Int
  let requestID: String
  let evaluationContext: EvaluationContext
  let tables: LedgerTables

  func run() throws -> TrialRecord {
    guard let now = try tables.trial(trial.id), evaluationContext.evaluatedAt < now.endsAt else { return trial }
    try tables.raiseSessions(of: trial.id, to: min(sessions, now.sessionsTotal ?? TrialTerms.mostSessions))
    return try tables.afterSessions(of: trial.id, requestID: requestID, evaluationContext)
  }
}

extension LedgerTables {
  /// The trial after its sessions were counted: it has ended, if none is left.
  fileprivate func afterSessions(
    of id: GivenPeriod.ID, requestID: String, _ evaluationContext: EvaluationContext
  ) throws -> TrialRecord {
    guard let counted = try trial(id) else { throw StoredForm.Unstorable() }
    guard counted.sessionsUsed >= counted.sessionsTotal ?? TrialTerms.mostSessions else { return counted }
    try EndGivenOperation(evaluationContext: evaluationContext, tables: self)
      .useUp(id, of: counted.user, requestID: requestID)
    guard let ended = try trial(id) else { throw StoredForm.Unstorable() }
    return ended
  }
}
