internal import Entitlements
package import struct FoundationEssentials.Date

/// Removes a queued receipt after its verdict, ends the grants on its signature, and reevaluates the user.
package struct SettlePending: LedgerOperation {
  private let id: Int64
  private let evaluationContext: EvaluationContext

  package init(_ id: Int64, _ evaluationContext: EvaluationContext) {
    (self.id, self.evaluationContext) = (id, evaluationContext)
  }

  package func run(_ tables: LedgerTables) throws {
    guard let pending = try tables.pending.pending(id) else { return }
    let hadGrants = try tables.provisionalGrants.grants(of: id).contains { !$0.isReservation }
    try tables.pending.remove(id)
    if hadGrants { try tables.pending.reevaluate(pending.user, without: pending, evaluationContext) }
  }
}

/// Ends the grants on the signature of a queued receipt that is refused for now, and reevaluates the user. It stays
/// queued; the failed attempt is counted and the next one scheduled.
package struct RefusePending: LedgerOperation {
  private let id: Int64
  private let due: Date
  private let evaluationContext: EvaluationContext

  package init(_ id: Int64, retryAt due: Date, _ evaluationContext: EvaluationContext) {
    (self.id, self.due, self.evaluationContext) = (id, due, evaluationContext)
  }

  package func run(_ tables: LedgerTables) throws {
    guard let pending = try tables.pending.pending(id) else { return }
    try tables.pending.retry(id, at: due)
    let granted = try tables.provisionalGrants.grants(of: id).filter { !$0.isOver }
    guard !granted.isEmpty else { return }
    for grant in granted { try tables.provisionalGrants.end(on: grant.evidence.key) }
    try tables.pending.reevaluate(pending.user, without: pending, evaluationContext)
  }
}

extension PendingTable {
  /// - Returns: how many grants ended, and those that did not, as their users cannot be read.
  func endOverdueGrants(
    _ evaluationContext: EvaluationContext
  ) throws -> (ended: Int, unreadable: [SubscriptionKey]) {
    let over = try tables.provisionalGrants.grants(endedAt: evaluationContext.evaluatedAt)
    let users = Dictionary(grouping: over, by: \.owner).sorted { $0.key.rawValue < $1.key.rawValue }
    let unreadable = try tables.undoingUnreadable(users) { user, grants in
      for grant in grants { try tables.provisionalGrants.end(on: grant.key) }
      for id in Set(grants.map(\.pending)).sorted() {
        guard let pending = try pending(id) else { continue }
        try reevaluate(user, without: pending, evaluationContext)
      }
    }
    .flatMap { $0.value.map(\.key) }
    return (over.count - unreadable.count, unreadable)
  }

  fileprivate func reevaluate(
    _ user: UserID, without pending: StoredPending, _ evaluationContext: EvaluationContext
  ) throws {
    try tables.writer(evaluationContext, requestID: pending.requestID, digest: pending.digest).reevaluateIfChanged(user)
  }
}
