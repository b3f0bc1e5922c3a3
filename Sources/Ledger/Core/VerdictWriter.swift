internal import Access
internal import Entitlements
internal import struct FoundationEssentials.Date

/// Writes verdicts inside an open transaction, each with its line of the history, its update for the app's row, and the
/// events for others.
///
/// One transaction holds all of them, so every verdict reaches the app, and every change those who listen.
struct VerdictWriter {
  let tables: LedgerTables
  let rules: any VerdictRules
  /// The evaluation time, unless evidence of the user is newer.
  let evaluatedAt: Date
  let head: EventTable.EventHead
  /// The receipt behind the verdict; `nil` where there is none.
  let digest: ReceiptDigest?
  /// The evidence time (Apple's clock) behind the verdict.
  let evidenceAt: Int64?
  /// When the updates of the app's rows become due.
  var rowsDueAt: Int64 = 0

  /// Reevaluates a user over all evidence, and stores the verdict.
  func reevaluate(_ account: inout Account) throws {
    let evidence = try tables.purchases.evidence(of: account)
    let (user, moment) = (account.user, moment(of: evidence, for: account))
    func verdict(_ given: [GivenPeriod]) -> Entitlement {
      rules.evaluate(user, evidence, among: nil, given: given, at: moment)
    }
    let before = try tables.accounts.verdict(of: account)
    _ = try save(verdict(account.given), of: &account, after: before, on: evidence) { _ in verdict([]) }
  }

  /// As `reevaluate`, but writes nothing if the verdict is unchanged.
  @discardableResult func reevaluateIfChanged(
    _ account: inout Account, withholds: Withholding = { _, _, _, _, _ in false },
    approves: Approval = { _, _ in true }
  ) throws -> ReevaluationOutcome {
    let evidence = try tables.purchases.evidence(of: account)
    let (user, moment) = (account.user, moment(of: evidence, for: account))
    func verdict(_ given: [GivenPeriod], after recorded: Entitlement?) -> Entitlement {
      let verdict = rules.evaluate(user, evidence, among: nil, given: given, at: moment)
      guard let recorded, withholds(verdict, evidence, given, recorded, moment) else { return verdict }
      return recorded
    }
    let before = try tables.accounts.verdict(of: account)
    let after = verdict(account.given, after: before)
    if let before, Self.isSame(after, before, by: \.apartFromMoment) { return .unchanged }
    guard approves(before, after) else { return .heldBack }
    _ = try save(after, of: &account, after: before, on: evidence) { verdict([], after: $0) }
    return .recorded
  }

  func reevaluateIfChanged(_ user: UserID) throws {
    var account = try tables.accounts.knownOrNewAccount(of: user)
    try reevaluateIfChanged(&account)
  }

  /// The evaluation time: not before the newest of Apple's evidence, nor before the begin of a grant or trial that runs: it
  /// began by our clock, and Apple's may be behind that. No verdict takes it away. Provisional grants are left out,
  /// since our own clock, by which they were evaluated, must not shift Apple's evidence.
  func moment(of evidence: [SubscriptionEvidence], for account: Account) -> Date {
    let recordedAt = StoredForm.date(head.recordedAt)
    let begun = account.given.filter { $0.isRunning(at: recordedAt) }.map(\.startsAt)
    return (evidence.filter { $0.provisionalUntil == nil }.map(\.evaluatedAt) + begun).reduce(evaluatedAt, max)
  }

  /// Stores a verdict as the next version, and the user's account, and appends the events of what changed.
  ///
  /// - Parameters:
  ///   - evidence: of all the user's purchases, for the prices in events.
  ///   - bought: the verdict on the purchases alone, after the one that is passed; called only where a grant decides.
  /// - Returns: the verdict as it will be read, and its update.
  func save(
    _ verdict: Entitlement, of account: inout Account, after before: Entitlement?, on evidence: [SubscriptionEvidence],
    bought: (_ before: Entitlement?) -> Entitlement?
  ) throws -> Recorded {
    let verdict = verdict.inWholeMilliseconds
    let former = account.verdict
    let changed = before.map { !Self.isSame(verdict, $0, by: \.apartFromEvidence) } ?? true
    try tables.events.append(
      .init(
        version: account.version + 1, changed: changed, digest: digest, evidenceAt: evidenceAt,
        text: try StoredForm.text(verdict)), to: &account, head)
    let waitingSince = try tables.outbox.enqueue(
      updateOf: &account, evidenceAt: evidenceAt, recordedAt: head.recordedAt, dueAt: rowsDueAt)
    try appendEvents(of: verdict, for: &account, after: before, former: former, on: evidence, bought: bought)
    let access = Account.Access(verdict)
    try tables.accounts.count(account.access, replacedBy: access)
    try tables.marks.countSubscriber(account.access, replacedBy: access)
    if let former = account.access, former.tier != access.tier { try tables.marks.markLimits(of: account.user.key) }
    // A user with purchases is noted when those are counted.
    if former == nil, account.purchases.isEmpty {
      try tables.progress.record(UserProgress(seen: StoredForm.date(head.recordedAt).utcDay), of: account.user)
    }
    account.access = access
    try tables.accounts.save(account, at: head.recordedAt)
    return Recorded(
      entitlement: verdict, changed: changed, losers: [], write: .waiting,
      update: WaitingUpdate(
        user: account.user, version: account.rowVersion, entitlement: verdict, waitingSince: waitingSince, attempts: 0,
        state: .waiting))
  }

  /// Appends the events of what a verdict changed: in the same transaction, and none where nothing changed.
  private func appendEvents(
    of verdict: Entitlement, for account: inout Account, after before: Entitlement?, former: Int64?,
    on evidence: [SubscriptionEvidence], bought: (Entitlement?) -> Entitlement?
  ) throws {
    var (after, before) = (Optional(verdict), before)
    var detail: ChangeEvent.Detail?
    let isGiven = (verdict.isGiven, before?.isGiven == true)
    if isGiven.0 || isGiven.1 {
      if isGiven.1 { before = try tables.changeEvents.coveredVerdict(of: account.user) }
      if isGiven.0 { after = bought(before).map(\.inWholeMilliseconds) }
      try tables.changeEvents.cover(isGiven.0 ? after : nil, of: account.user)
      // Without a covered verdict there is nothing to compare with.
      if isGiven.1, before == nil { after = nil }
      detail = ChangeEvent.Detail()
      if isGiven.0 { detail?.covered = after }
      if isGiven.1 { detail?.formerlyCovered = before }
    }
    let transfers = account.transfers
    account.transfers = []
    for one in transfers {
      var detail = ChangeEvent.Detail()
      (detail.from, detail.to) = (one.from, one.to)
      detail.purchase = try tables.purchases.key(ofPurchase: one.purchase)
      let loser = one.from == account.user ? account : try tables.accounts.account(of: one.from)
      detail.isPart = loser.map { !Set($0.purchases).isSubset(of: transfers.map(\.purchase)) }
      try append(.subscriptionTransferred, of: account, former, nil, detail)
    }
    guard transfers.isEmpty, let after else { return }
    let moment = verdict.explanation.evaluatedAt ?? StoredForm.date(head.recordedAt)
    let isDuringTrial = account.given.contains { $0.kind == .trial && $0.isRunning(at: moment) }
    let events = after.events(after: before, isDuringTrial: isDuringTrial)
    let purchase = events.isEmpty ? nil : Self.purchase(of: after, after: before, in: evidence)
    if let before, after.givesAccess, after.productID != before.productID {
      let replaced = Self.purchase(of: before, after: nil, in: evidence)
      if let replaced, replaced.cancellationDate != nil, !replaced.isUpgraded, let sale = replaced.sale {
        detail = detail ?? ChangeEvent.Detail()
        detail?.takenBack = sale
      }
    }
    if try isTold(purchase, by: events, of: account, after: before, former) {
      detail = detail ?? ChangeEvent.Detail()
      detail?.isTold = true
    }
    for event in events { try append(event, of: account, former, purchase, detail) }
  }

  /// Whether a transaction that decides now ran beside the one before, and decided earlier: its price was told then. A
  /// refund in between has taken it back.
  private func isTold(
    _ bought: Purchase?, by events: [EventType], of account: Account, after before: Entitlement?, _ former: Int64?
  ) throws -> Bool {
    guard let bought, let before, let price = bought.sale?.price, price > 0,
      events.contains(.productChanged) || events.contains(.trialConverted),
      before.explanation.passedOver.contains(where: {
        $0.transactionID == bought.transactionID && $0.cause == .otherSubscription
      })
    else { return false }
    return try tables.events.verdict(decidedBy: bought.transactionID, of: account, from: former)?.givesAccess ?? false
  }

  private func append(
    _ event: EventType, of account: Account, _ former: Int64?, _ bought: Purchase?, _ detail: ChangeEvent.Detail?
  ) throws {
    try tables.changeEvents.append(
      event.rawValue, of: account.user, at: head.recordedAt, recordedAt: head.recordedAt, verdict: account.verdict,
      former: former, bought: bought, detail)
  }

  /// The transaction that a verdict is about. One that is known by its renewal info alone has the ID of the one before,
  /// and no price.
  private static func purchase(
    of verdict: Entitlement, after former: Entitlement?, in evidence: [SubscriptionEvidence]
  ) -> Purchase? {
    let verdict = verdict.explanation.decidedBy == nil ? former ?? verdict : verdict
    let purchase = evidence.first {
      $0.key.originalTransactionID == verdict.originalTransactionID && $0.key.environment == verdict.environment
    }
    return purchase?.readings().last { $0.purchase.transactionID == verdict.explanation.decidedBy }?.purchase
  }

  /// Compares verdicts as they are stored: in whole milliseconds.
  static func isSame(_ one: Entitlement, _ other: Entitlement, by part: (Entitlement) -> Entitlement) -> Bool {
    part(one.inWholeMilliseconds) == part(other.inWholeMilliseconds)
  }
}

extension LedgerTables {
  /// The writer of verdicts that need no answer from Apple.
  /// - Parameters:
  ///   - evidenceAt: the evidence time behind the verdicts; `nil` where no new evidence is.
  ///   - rowsClaimedUntil: until when the app's rows are claimed for the caller: see `LedgerEntry`.
  func writer(
    _ context: EvaluationContext, requestID: String, note: NoteID? = nil, digest: ReceiptDigest?,
    evidenceAt: Int64? = nil, rowsClaimedUntil: Date? = nil
  ) throws -> VerdictWriter {
    VerdictWriter(
      tables: self, rules: context.rules, evaluatedAt: context.evaluatedAt,
      head: .init(recordedAt: try StoredForm.milliseconds(context.recordedAt), requestID: requestID, note: note),
      digest: digest, evidenceAt: evidenceAt, rowsDueAt: try rowsClaimedUntil.map(StoredForm.milliseconds) ?? 0)
  }
}
