internal import Entitlements
internal import struct FoundationEssentials.Date

/// Writes verdicts inside an open transaction, each with its history line and its update for the app's row.
///
/// One transaction holds all three, so every verdict reaches the app.
struct VerdictWriter {
  let tables: LedgerTables
  let recordedAt: Int64
  let requestID: String
  /// The receipt behind the verdict.
  let digest: ReceiptDigest
  /// The evidence time (Apple's clock) behind the verdict.
  let evidenceAt: Int64?
  /// The support note that caused the verdicts.
  var note: NoteID?
  /// When the updates of the app's rows become due.
  var rowsDueAt: Int64 = 0

  /// Reevaluates a user over all evidence, and stores the verdict.
  /// - Parameter gains: evidence that becomes the user's and is not written yet.
  func reevaluate(
    _ user: UserID, with gains: [SubscriptionEvidence] = [], by evaluate: Evaluator, at moment: Date
  ) throws {
    let user = try tables.name(of: user)
    let proven = try tables.subscriptions(of: user).map(\.evidence) + gains
    let evidence = proven.sorted { $0.key.precedes($1.key) } + (try tables.provisionalEvidence(of: user))
    let verdict = evaluate(user, evidence, Self.moment(of: evidence, notBefore: moment))
    _ = try save(verdict, of: user, after: try tables.profile(of: user))
  }

  /// As `reevaluate`, but writes nothing if the verdict is unchanged.
  /// - Returns: whether the verdict was approved or is unchanged.
  @discardableResult func judgeIfChanged(
    _ user: UserID, by evaluate: Evaluator, at moment: Date, approves: Approval = { _, _ in true }
  ) throws -> Bool {
    let user = try tables.name(of: user)
    let evidence = try tables.evidence(of: user)
    let verdict = evaluate(user, evidence, Self.moment(of: evidence, notBefore: moment))
    let before = try tables.profile(of: user)
    if let before, try Self.isSame(verdict, before.entitlement, by: \.apartFromMoment) { return true }
    guard approves(before?.entitlement, verdict) else { return false }
    _ = try save(verdict, of: user, after: before)
    return true
  }

  /// The evaluation time: not before the newest of Apple's evidence. Provisional grants are left out, since our own
  /// clock, by which they were evaluated, must not shift Apple's evidence.
  static func moment(of evidence: [SubscriptionEvidence], notBefore moment: Date) -> Date {
    evidence.filter { $0.provisionalUntil == nil }.map(\.evaluatedAt).reduce(moment, max)
  }

  /// Stores a verdict as the next version.
  /// - Returns: the verdict as it will be read, and whether it is a change.
  func save(
    _ verdict: Entitlement, of user: UserID, after before: LedgerTables.StoredProfile?
  ) throws -> (Entitlement, Bool) {
    let text = try StoredForm.text(verdict)
    let version = (before?.version ?? 0) + 1
    let changed =
      if let before { try !Self.isSame(verdict, before.entitlement, by: \.apartFromEvidence) } else { true }
    try tables.save(verdict, text: text, of: user, version: version, recordedAt: recordedAt)
    try tables.append(
      .init(
        user: user, version: version, recordedAt: recordedAt, requestID: requestID, changed: changed,
        entitlement: text, digest: digest, evidenceAt: evidenceAt, note: note))
    try tables.enqueueUpdate(of: user, evidenceAt: evidenceAt, recordedAt: recordedAt, dueAt: rowsDueAt)
    return (try StoredForm.value(Entitlement.self, text), changed)
  }

  /// Compares the stored forms, since stored dates are truncated to milliseconds.
  static func isSame(
    _ one: Entitlement, _ other: Entitlement, by part: (Entitlement) -> Entitlement
  ) throws -> Bool {
    try StoredForm.text(part(one)) == StoredForm.text(part(other))
  }
}
