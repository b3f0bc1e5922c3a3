internal import Entitlements
internal import struct FoundationEssentials.Date

/// Writes verdicts inside an open transaction: each with its history line, and with the news for the app's own row.
///
/// All three are one transaction, so there is no verdict of which the app would never hear.
struct VerdictWriter {
  let tables: LedgerTables
  let recordedAt: Int64
  let requestID: String
  /// The receipt that a verdict comes of.
  let digest: ReceiptDigest
  /// Apple's clock on what a verdict comes of.
  let evidenceAt: Int64?
  /// What a person said who brought the verdicts about.
  var note: NoteID?
  /// When the app's rows are due for whoever claims updates.
  var rowsDueAt: Int64 = 0

  /// Judges a user anew over everything known, and writes the verdict down.
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

  /// As `reevaluate`, where the verdict may well be the one that stands: then nothing is written.
  /// - Returns: whether it was admitted, or is the same.
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

  /// The moment to judge at: never before the newest at which proof was judged. A grant was judged by our own clock, which
  /// must not move Apple's word on other purchases.
  static func moment(of evidence: [SubscriptionEvidence], notBefore moment: Date) -> Date {
    evidence.filter { $0.provisionalUntil == nil }.map(\.evaluatedAt).reduce(moment, max)
  }

  /// Writes a verdict as the next version.
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

  /// Compares the written forms, as dates lose what is below a millisecond when they are written.
  static func isSame(
    _ one: Entitlement, _ other: Entitlement, by part: (Entitlement) -> Entitlement
  ) throws -> Bool {
    try StoredForm.text(part(one)) == StoredForm.text(part(other))
  }
}
