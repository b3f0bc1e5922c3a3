internal import Access
internal import Entitlements
internal import struct FoundationEssentials.Date

/// Brings a user and a device together inside an open transaction: the device is kept among the user's, and what is known
/// of it comes along.
///
///     a trial was begun there by    the user is        then
///     the device itself             named              it becomes the user's, who has had none
///     another device, whose push    the device         the device means that user from now on, and shares the trial
///       token this one has
///     anybody else                  anybody            nothing moves; the device has had its trial
struct DeviceArrivalOperation {
  let device: Device
  let user: UserID
  /// Whether a user who has had a trial takes another one.
  var takesSeveral = false
  let requestID: String
  let evaluationContext: EvaluationContext
  let tables: LedgerTables

  /// - Returns: whom the user's ID means, and whether a trial has become the user's.
  func run() throws -> (user: UserID, hasTaken: Bool) {
    let now = evaluationContext.recordedAt
    var user = try tables.name(of: user)
    let begun = try tables.newestTrial(on: device.id)
    let former = begun == nil ? try tables.trialOfPredecessor(of: device, at: now) : nil
    var hasTaken = false
    if let trial = begun ?? former, trial.user != user {
      if trial.user.isDevice, !user.isAnonymous {
        hasTaken = try takesSeveral || tables.newestTrial(of: user) == nil
        if hasTaken { try join(trial.user, to: user) }
      } else if former != nil, user == device.id.user, !trial.user.isErased {
        try join(user, to: trial.user)
        user = trial.user
      }
    }
    try tables.keep(device, of: user, at: now)
    if let former { try tables.noteUse(of: former.id, by: user, on: device.id) }
    return (user, hasTaken)
  }

  private func join(_ id: UserID, to user: UserID) throws {
    _ = try JoinOperation(
      id: id, user: user, requestID: requestID, evaluationContext: evaluationContext, tables: tables
    ).run()
  }
}

/// Begins a trial inside an open transaction, if nothing that allows one has been used.
struct TrialStartOperation {
  var start: TrialStart
  let tables: LedgerTables

  func run() throws -> TrialStartOutcome {
    let arrival = try DeviceArrivalOperation(
      device: start.device, user: start.user, takesSeveral: !start.terms.oncePer.contains(.user),
      requestID: start.requestID, evaluationContext: start.evaluationContext, tables: tables
    ).run()
    var operation = self
    operation.start.user = arrival.user
    let outcome = try operation.begin(hasTaken: arrival.hasTaken)
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

  private func begin(hasTaken: Bool) throws -> TrialStartOutcome {
    let (user, device) = (start.user, start.device.id)
    let now = start.evaluationContext.recordedAt
    let there = try tables.newestTrial(on: device)
    let own = start.terms.oncePer.contains(.user) ? try tables.newestTrial(of: user) : nil
    if let known = own ?? there.flatMap({ $0.user == user ? $0 : nil }) {
      return hasTaken ? .taken(known) : .known(known)
    }
    // What a former system had begun is a fact.
    if start.former == nil, start.isCovered { return .notNeeded }
    if start.terms.oncePer.contains(.device), there != nil || start.isUsedByApple { return .used(.device) }
    if start.former == nil, start.terms.oncePer.contains(.storeAccount), let account = try tables.account(of: user),
      try tables.evidence(of: account).contains(where: { $0.purchases.contains(where: \.isTrial) })
    {
      return .used(.storeAccount)
    }
    if let used = try usedBefore() { return .used(used) }
    let startsAt = start.former?.startedAt ?? start.evaluationContext.evaluatedAt
    let outcome = try Give(
      user: user, kind: .trial, tier: start.terms.tier, startsAt: startsAt,
      endsAt: start.former?.endsAt ?? startsAt.advanced(by: start.terms.length),
      author: start.author, requestID: start.requestID, evaluationContext: start.evaluationContext,
      rowsClaimedUntil: start.rowsClaimedUntil
    ).run(tables)
    guard case .given(let record) = outcome else { throw StoredForm.Unstorable() }
    try tables.add(start, as: record.period.id)
    try tables.noteExposures(of: record.user.key)
    guard let trial = try tables.trial(record.period.id) else { throw StoredForm.Unstorable() }
    try tables.appendStart(of: trial, record, at: now)
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

  /// The trial as this write finds it decides: of many at once as many are counted as are left.
  func run() throws -> TrialSessionOutcome {
    guard let trial = try tables.trial(of: user, on: device) else { return .unknown }
    if let idempotencyKey {
      guard try tables.addSession(idempotencyKey, to: trial.id) else { return .counted(trial) }
    }
    guard trial.isRunning(at: evaluationContext.evaluatedAt), !trial.isUsedUp else {
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
    guard let now = try tables.trial(trial.id) else { return trial }
    guard now.isRunning(at: evaluationContext.evaluatedAt), !now.isUsedUp else { return now }
    try tables.raiseSessions(of: trial.id, to: min(sessions, now.sessionsTotal ?? TrialTerms.mostSessions))
    return try tables.afterSessions(of: trial.id, requestID: requestID, evaluationContext)
  }
}

/// Changes the end or the sessions of a trial inside an open transaction, and reevaluates its user. A trial that is over
/// begins again where that leaves it something.
struct TrialAmendmentOperation {
  let amendment: TrialAmendment
  let tables: LedgerTables

  /// - Returns: `nil` where there is no such trial.
  func run() throws -> TrialRecord? {
    let now = amendment.evaluationContext.evaluatedAt
    guard var trial = try trial(), !trial.user.isErased, let given = try tables.given(trial.id),
      var account = try tables.account(of: trial.user)
    else { return nil }
    let (wasRunning, wasUsedUp) = (trial.isRunning(at: now), trial.isUsedUp)
    let endsAt = amendment.endsAt ?? given.period.endsAt
    trial.sessionsTotal = amendment.sessionsTotal ?? trial.sessionsTotal
    // Somebody ended it, and nobody says a new end.
    let staysEnded = given.endedAt != nil && !wasUsedUp && amendment.endsAt == nil
    let isRunning = !trial.isUsedUp && !staysEnded && now < endsAt
    try tables.amendTrial(
      trial.id, endsAt: endsAt, endedAt: isRunning ? nil : wasRunning ? now : given.endedAt, isOver: !isRunning,
      sessions: trial.sessionsTotal)
    guard let amended = try tables.given(trial.id) else { throw StoredForm.Unstorable() }
    account.given.removeAll { $0.id == trial.id }
    if isRunning { account.given = (account.given + [amended.period]).sorted { $0.id < $1.id } }
    let note = try tables.append(amendment.note)
    try account.reevaluate(
      by: amendment.evaluationContext, tables, requestID: amendment.note.requestID, note: note,
      rowsClaimedUntil: amendment.rowsClaimedUntil)
    if wasRunning, !isRunning {
      try tables.appendEnd(of: amended, over: account, at: amendment.evaluationContext.recordedAt)
    } else if isRunning, !wasRunning {
      try tables.appendStart(of: trial, amended, at: amendment.evaluationContext.recordedAt)
    }
    return try tables.trial(trial.id)
  }

  private func trial() throws -> TrialRecord? {
    guard let user = amendment.user else { return try tables.newestTrial(on: amendment.device) }
    return try tables.trial(of: user, on: amendment.device)
  }
}

extension LedgerTables {
  /// Appends the event of a trial that begins.
  fileprivate func appendStart(of trial: TrialRecord, _ given: GivenRecord, at now: Date) throws {
    var detail = ChangeEvent.Detail(given)
    (detail.trial, detail.device) = (trial.name, trial.device.rawValue)
    try appendChangeEvent(.trialStarted, of: given.user, at: now, detail)
  }

  /// The trial after its sessions were counted: it has ended, if none is left.
  fileprivate func afterSessions(
    of id: GivenPeriod.ID, requestID: String, _ evaluationContext: EvaluationContext
  ) throws -> TrialRecord {
    guard let counted = try trial(id) else { throw StoredForm.Unstorable() }
    guard counted.isUsedUp else { return counted }
    try endUsedUp(id, of: counted.user, requestID: requestID, evaluationContext)
    guard let ended = try trial(id) else { throw StoredForm.Unstorable() }
    return ended
  }
}
