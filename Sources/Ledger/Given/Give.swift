package import Entitlements
package import struct FoundationEssentials.Date

/// Gives a user a period of access. The user need not be known. The period, the note, the verdict and its update for the
/// app's row are written together or not at all.
package struct Give: LedgerOperation {
  package enum Outcome: Hashable, Sendable {
    /// It is recorded, and durable.
    case given(GivenRecord)
    /// The idempotency key was used for the same before.
    case repeated(GivenRecord)
    /// The idempotency key was used for something else. Nothing was recorded.
    case mismatch
  }

  package var user: UserID
  package var kind: GivenPeriod.Kind
  package var tier: Tier
  package var startsAt: Date
  package var endsAt: Date
  package var author: String
  /// Kept as a note in the user's history too.
  package var note: String?
  package var requestID: String
  /// A repeated key gives nothing a second time.
  package var idempotencyKey: String?
  package var evaluationContext: EvaluationContext
  /// Until when the app's row is claimed for the caller: see `LedgerEntry`.
  package var rowsClaimedUntil: Date?

  package init(
    user: UserID, kind: GivenPeriod.Kind, tier: Tier, startsAt: Date, endsAt: Date, author: String,
    note: String? = nil, requestID: String, idempotencyKey: String? = nil, evaluationContext: EvaluationContext,
    rowsClaimedUntil: Date? = nil
  ) {
    self.user = user
    self.kind = kind
    self.tier = tier
    self.startsAt = startsAt
    self.endsAt = endsAt
    self.author = author
    self.note = note
    self.requestID = requestID
    self.idempotencyKey = idempotencyKey
    self.evaluationContext = evaluationContext
    self.rowsClaimedUntil = rowsClaimedUntil
  }

  package func run(_ tables: LedgerTables) throws -> Outcome {
    let user = try tables.accounts.name(of: user)
    if let idempotencyKey, let former = try tables.given.given(to: user, under: idempotencyKey) {
      return isSame(as: former) ? .repeated(former) : .mismatch
    }
    var account = try tables.accounts.knownOrNewAccount(of: user)
    let now = evaluationContext.recordedAt
    let noteID = try note.map { text in
      try tables.events.append(Note(author: author, text: text, requestID: requestID, recordedAt: now))
    }
    let record = try tables.given.add(self, to: account.user)
    account.given.append(record.period)
    try account.reevaluate(
      by: evaluationContext, tables, requestID: requestID, note: noteID, rowsClaimedUntil: rowsClaimedUntil)
    // `StartTrial` appends the event of a trial, which has its name.
    if kind != .trial {
      try tables.changeEvents.append(.grantStarted, of: account.user, at: now, ChangeEvent.Detail(record))
    }
    return .given(record)
  }

  /// Whether a request with the same idempotency key asked for the same: the same end, or the same length.
  private func isSame(as former: GivenRecord) -> Bool {
    func length(from start: Date, to end: Date) -> Int64 { end.millisecondsSince1970 - start.millisecondsSince1970 }
    let period = former.period
    let isSameEnd =
      period.endsAt.millisecondsSince1970 == endsAt.millisecondsSince1970
      || length(from: period.startsAt, to: period.endsAt) == length(from: startsAt, to: endsAt)
    return period.kind == kind && period.tier == tier && former.note == note && isSameEnd
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
      context, requestID: requestID, note: note, digest: tables.accounts.newestDigest(of: self),
      rowsClaimedUntil: rowsClaimedUntil)
    if note == nil { try writer.reevaluateIfChanged(&self) } else { try writer.reevaluate(&self) }
    if self.version == version { try tables.accounts.save(self, at: writer.head.recordedAt) }
  }
}

extension ChangeEvent.Detail {
  init(_ record: GivenRecord) {
    self.init()
    given = record.period
    endedAt = record.endedAt
  }
}
