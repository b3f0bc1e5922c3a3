internal import Entitlements
internal import struct FoundationEssentials.Date

/// Gives a user a period of access inside an open transaction: the period, the note, the verdict and its update for the
/// app's row are written together or not at all.
struct GivingOperation {
  let giving: Giving
  let tables: LedgerTables

  func run() throws -> GivingOutcome {
    if let key = giving.idempotencyKey, let former = try tables.given(to: giving.user, under: key) {
      return giving.isSame(as: former) ? .repeated(former) : .mismatch
    }
    var account = try tables.knownOrNewAccount(of: giving.user)
    let context = giving.evaluationContext
    let note = try giving.note.map { text in
      try tables.append(
        Note(author: giving.author, text: text, requestID: giving.requestID, recordedAt: context.recordedAt))
    }
    let record = try tables.add(giving, to: account.user)
    account.given.append(record.period)
    try account.reevaluate(
      by: context, tables, requestID: giving.requestID, note: note, rowsClaimedUntil: giving.rowsClaimedUntil)
    // `TrialStartOperation` appends the event of a trial, which has its name.
    if giving.kind != .trial {
      try tables.appendChangeEvent(.grantStarted, of: account.user, at: context.recordedAt, ChangeEvent.Detail(record))
    }
    return .given(record)
  }
}

/// Ends given periods, and reevaluates the users who had them.
struct EndGivenOperation {
  let evaluationContext: EvaluationContext
  let tables: LedgerTables

  /// Ends a period now, by a person's decision.
  func end(_ id: GivenPeriod.ID, of user: UserID, note: Note) throws -> EndingOutcome {
    guard let record = try tables.given(id), record.user.key == user.key,
      var account = try tables.account(of: user)
    else { return .unknown }
    guard record.endedAt == nil, evaluationContext.evaluatedAt < record.period.endsAt else { return .over(record) }
    let noteID = try tables.append(note)
    try tables.endGiven(id, endedAt: evaluationContext.recordedAt)
    account.given.removeAll { $0.id == id }
    try account.reevaluate(by: evaluationContext, tables, requestID: note.requestID, note: noteID)
    guard let ended = try tables.given(id) else { return .unknown }
    try appendEnd(of: ended, over: account)
    return .ended(ended)
  }

  /// Ends a trial whose last session was used.
  func useUp(_ id: GivenPeriod.ID, of user: UserID, requestID: String) throws {
    guard var account = try tables.account(of: user) else { throw StoredForm.Unstorable() }
    try tables.endGiven(id, endedAt: evaluationContext.evaluatedAt)
    account.given.removeAll { $0.id == id }
    try account.reevaluate(by: evaluationContext, tables, requestID: requestID)
    if let ended = try tables.given(id) { try appendEnd(of: ended, over: account) }
  }

  /// Records the verdicts of users whose periods are over by now.
  /// - Returns: how many periods ended.
  func endOverdue(limit: Int) throws -> Int {
    let over = try tables.given(endedAt: evaluationContext.evaluatedAt, limit: limit)
    for (user, records) in Dictionary(grouping: over, by: \.user).sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
      guard var account = try tables.account(of: user), let last = records.last else { throw StoredForm.Unstorable() }
      for record in records { try tables.endGiven(record.period.id, endedAt: nil) }
      let ids = Set(records.map(\.period.id))
      account.given.removeAll { ids.contains($0.id) }
      try account.reevaluate(by: evaluationContext, tables, requestID: last.requestID)
      for record in records { try appendEnd(of: record, over: account) }
    }
    return over.count
  }

  /// Appends the event of a period's end. A trial whose user bought something since was converted, and has an event of that.
  func appendEnd(of record: GivenRecord, over account: Account) throws {
    var detail = ChangeEvent.Detail(record)
    let isTrial = record.period.kind == .trial
    if isTrial {
      let hasBought = try tables.evidence(of: account).contains { evidence in
        evidence.purchases.contains { $0.purchaseDate.map { $0 >= record.period.startsAt } ?? false }
      }
      guard !hasBought else { return }
      let trial = try tables.trial(record.period.id)
      (detail.trial, detail.device) = (trial?.name, trial?.device.rawValue)
    }
    try tables.appendChangeEvent(
      isTrial ? .trialExpired : .grantEnded, of: account.user, at: evaluationContext.recordedAt, detail)
  }
}

extension LedgerTables {
  /// Appends a note that is listed with the verdict after it: by itself it would be one on an inquiry with Apple.
  func append(_ note: Note) throws -> NoteID {
    var nobody: Account?
    return try append(note, to: &nobody)
  }
}

extension Account {
  /// Records the verdict, where it is another one or has a note, and the account in any case.
  mutating func reevaluate(
    by context: EvaluationContext, _ tables: LedgerTables, requestID: String, note: NoteID? = nil,
    rowsClaimedUntil: Date? = nil
  ) throws {
    let version = version
    let writer = try tables.writer(
      context, requestID: requestID, note: note, digest: tables.newestDigest(of: self),
      rowsClaimedUntil: rowsClaimedUntil)
    if note == nil { try writer.reevaluateIfChanged(&self) } else { try writer.reevaluate(&self) }
    if self.version == version { try tables.save(self, at: writer.head.recordedAt) }
  }
}

extension ChangeEvent.Detail {
  init(_ record: GivenRecord) {
    self.init()
    given = record.period
    endedAt = record.endedAt
  }
}

extension Giving {
  /// Whether a request with the same idempotency key asked for the same: the same end, or the same length.
  fileprivate func isSame(as former: GivenRecord) -> Bool {
    func length(from start: Date, to end: Date) -> Int64 { end.millisecondsSince1970 - start.millisecondsSince1970 }
    let period = former.period
    let isSameEnd =
      period.endsAt.millisecondsSince1970 == endsAt.millisecondsSince1970
      || length(from: period.startsAt, to: period.endsAt) == length(from: startsAt, to: endsAt)
    return period.kind == kind && period.tier == tier && former.note == note && isSameEnd
  }
}
