internal import Entitlements
internal import struct FoundationEssentials.Date

/// Writes verdicts inside an open transaction, each with its event and its update for the app's row.
///
/// One transaction holds all three, so every verdict reaches the app.
struct VerdictWriter {
  let tables: LedgerTables
  let head: LedgerTables.EventHead
  /// The receipt behind the verdict; `nil` where there is none.
  let digest: ReceiptDigest?
  /// The evidence time (Apple's clock) behind the verdict.
  let evidenceAt: Int64?
  /// When the updates of the app's rows become due.
  var rowsDueAt: Int64 = 0

  /// Reevaluates a user over all evidence, and stores the verdict.
  func reevaluate(_ account: inout Account, by evaluate: Evaluator, at moment: Date) throws {
    let evidence = try tables.evidence(of: account)
    let verdict = evaluate(account.user, evidence, account.given, Self.moment(of: evidence, notBefore: moment))
    _ = try save(verdict, of: &account, after: try tables.profile(of: account)?.entitlement)
  }

  /// As `reevaluate`, but writes nothing if the verdict is unchanged.
  /// - Returns: whether the verdict was approved or is unchanged.
  @discardableResult func reevaluateIfChanged(
    _ user: UserID, by evaluate: Evaluator, at moment: Date, approves: Approval = { _, _ in true }
  ) throws -> Bool {
    var account = try tables.account(of: user) ?? Account(of: tables.name(of: user))
    return try reevaluateIfChanged(&account, by: evaluate, at: moment, approves: approves)
  }

  @discardableResult func reevaluateIfChanged(
    _ account: inout Account, by evaluate: Evaluator, at moment: Date, approves: Approval = { _, _ in true }
  ) throws -> Bool {
    let evidence = try tables.evidence(of: account)
    let verdict = evaluate(account.user, evidence, account.given, Self.moment(of: evidence, notBefore: moment))
    let before = try tables.profile(of: account)?.entitlement
    if let before, Self.isSame(verdict, before, by: \.apartFromMoment) { return true }
    guard approves(before, verdict) else { return false }
    _ = try save(verdict, of: &account, after: before)
    return true
  }

  /// As `reevaluateIfChanged`, for a verdict that need not come of the evidence alone.
  func reevaluate(
    _ user: UserID, by successor: Reevaluation.Successor, at moment: Date, approves: Approval
  ) throws -> ReevaluationOutcome {
    guard var account = try tables.account(of: user), let before = try tables.profile(of: account)?.entitlement
    else { return .unchanged }
    let evidence = try tables.evidence(of: account)
    guard let verdict = successor(evidence, account.given, before, Self.moment(of: evidence, notBefore: moment)),
      !Self.isSame(verdict, before, by: \.apartFromMoment)
    else { return .unchanged }
    guard approves(before, verdict) else { return .heldBack }
    _ = try save(verdict, of: &account, after: before)
    return .recorded
  }

  /// The evaluation time: not before the newest of Apple's evidence. Provisional grants are left out, since our own
  /// clock, by which they were evaluated, must not shift Apple's evidence.
  static func moment(of evidence: [SubscriptionEvidence], notBefore moment: Date) -> Date {
    evidence.filter { $0.provisionalUntil == nil }.map(\.evaluatedAt).reduce(moment, max)
  }

  /// A stored verdict.
  struct Saved {
    /// The verdict as it will be read.
    var entitlement: Entitlement
    var changed: Bool
    var update: WaitingUpdate
  }

  /// Stores a verdict as the next version, and the user's account.
  func save(_ verdict: Entitlement, of account: inout Account, after before: Entitlement?) throws -> Saved {
    let verdict = verdict.inWholeMilliseconds
    let changed = before.map { !Self.isSame(verdict, $0, by: \.apartFromEvidence) } ?? true
    try tables.append(
      .init(
        version: account.version + 1, changed: changed, digest: digest, evidenceAt: evidenceAt,
        text: try StoredForm.text(verdict)), to: &account, head)
    let waitingSince = try tables.enqueueUpdate(
      of: &account, evidenceAt: evidenceAt, recordedAt: head.recordedAt, dueAt: rowsDueAt)
    let access = Account.Access(verdict)
    try tables.count(account.access, replacedBy: access)
    account.access = access
    try tables.save(account, at: head.recordedAt)
    return Saved(
      entitlement: verdict, changed: changed,
      update: WaitingUpdate(
        user: account.user, version: account.rowVersion, entitlement: verdict, waitingSince: waitingSince, attempts: 0,
        state: .waiting))
  }

  /// Compares verdicts as they are stored: in whole milliseconds.
  static func isSame(_ one: Entitlement, _ other: Entitlement, by part: (Entitlement) -> Entitlement) -> Bool {
    part(one.inWholeMilliseconds) == part(other.inWholeMilliseconds)
  }
}
