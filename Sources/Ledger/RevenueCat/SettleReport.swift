package import Entitlements
package import struct FoundationEssentials.Date

/// Removes a hint once Apple's answer is recorded, or refuses it, unless an event came after `at`; or access whose time is
/// over.
package struct SettleReport: LedgerOperation {
  private let key: SubscriptionKey
  private let at: Date
  private let evaluationContext: EvaluationContext

  package init(_ key: SubscriptionKey, upTo at: Date, _ evaluationContext: EvaluationContext) {
    (self.key, self.at, self.evaluationContext) = (key, at.inWholeMilliseconds, evaluationContext)
  }

  package func run(_ tables: LedgerTables) throws {
    guard let report = try tables.otherStores.report(key), report.at <= at else { return }
    tables.changes.invalidate(report.user)
    try tables.otherStores.removeReport(key)
    if report.until != nil { try tables.reevaluate(report, evaluationContext) }
  }
}

/// Keeps a hint about which Apple could not be asked. It counts for a while, if no other user has the purchase and nobody
/// was promised it.
package struct PostponeReport: LedgerOperation {
  private let key: SubscriptionKey
  private let provisional: Duration
  private let due: Date
  private let evaluationContext: EvaluationContext

  /// - Parameters:
  ///   - provisional: how long it counts from its first arrival on; zero: not at all.
  ///   - due: when Apple is asked again.
  package init(
    _ key: SubscriptionKey, for provisional: Duration, until due: Date, _ evaluationContext: EvaluationContext
  ) {
    (self.key, self.provisional) = (key, provisional)
    (self.due, self.evaluationContext) = (due, evaluationContext)
  }

  package func run(_ tables: LedgerTables) throws {
    guard var report = try tables.otherStores.report(key) else { return }
    report.attempts += 1
    let former = report.until
    if former == nil, provisional > .zero, var evidence = SubscriptionEvidence(report.events, of: key),
      try mayCount(&evidence, of: report, tables)
    {
      report.evidence = evidence
      report.until = report.reportedAt.advanced(by: provisional)
    }
    report.dueAt = due
    // The purchase that the report gives may end before the report does: the app's row follows.
    let ends = [report.until].compactMap(\.self) + (report.evidence?.purchases.compactMap(\.expiresDate) ?? [])
    if report.until != nil, let end = ends.filter({ evaluationContext.recordedAt < $0 }).min() {
      report.dueAt = min(due, end)
    }
    try tables.otherStores.save(report)
    if report.until != nil { try tables.reevaluate(report, evaluationContext) }
  }

  private func mayCount(
    _ evidence: inout SubscriptionEvidence, of report: OtherStoreTable.StoredReport, _ tables: LedgerTables
  ) throws -> Bool {
    if let owner = try tables.purchases.purchase(report.key)?.owner, owner != report.user { return false }
    if let grant = try tables.provisionalGrants.grant(on: report.key), grant.owner != report.user { return false }
    guard let unclaimed = try tables.unclaimed.purchase(report.key)?.evidence else { return true }
    guard try !tables.unclaimed.names(unclaimed, anotherThan: report.user) else { return false }
    evidence.leaveOut(endedBy: [unclaimed])
    return !evidence.purchases.isEmpty
  }
}

extension LedgerTables {
  fileprivate func reevaluate(_ report: OtherStoreTable.StoredReport, _ evaluationContext: EvaluationContext) throws {
    var account = try accounts.account(of: report.user) ?? Account(of: report.user)
    try writer(
      evaluationContext, requestID: report.events.last.map { "revenuecat:\($0.id)" } ?? "revenuecat",
      digest: accounts.newestDigest(of: account), evidenceAt: StoredForm.milliseconds(report.at)
    ).reevaluateIfChanged(&account)
  }
}
