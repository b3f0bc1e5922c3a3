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
    guard let pending = try tables.pending(id) else { return }
    let hadGrants = try tables.grants(of: id).contains { !$0.isReservation }
    try tables.removePending(id)
    if hadGrants { try tables.reevaluate(pending.user, without: pending, evaluationContext) }
  }
}

/// Ends the grants on the signature of a queued receipt that Apple rejects, and reevaluates the user. The receipt stays
/// queued; the failed attempt is counted and the next one scheduled.
package struct RefusePending: LedgerOperation {
  private let id: Int64
  private let due: Date
  private let evaluationContext: EvaluationContext

  package init(_ id: Int64, retryAt due: Date, _ evaluationContext: EvaluationContext) {
    (self.id, self.due, self.evaluationContext) = (id, due, evaluationContext)
  }

  package func run(_ tables: LedgerTables) throws {
    guard let pending = try tables.pending(id) else { return }
    try tables.retryPending(id, at: due)
    let granted = try tables.grants(of: id).filter { !$0.isOver }
    guard !granted.isEmpty else { return }
    for grant in granted { try tables.endGrant(on: grant.evidence.key) }
    try tables.reevaluate(pending.user, without: pending, evaluationContext)
  }
}

extension LedgerTables {
  func endOverdueGrants(_ evaluationContext: EvaluationContext) throws -> Int {
    let ended = try grants(endedAt: evaluationContext.evaluatedAt)
    for grant in ended { try endGrant(on: grant.evidence.key) }
    for (id, grants) in Dictionary(grouping: ended, by: \.pending).sorted(by: { $0.key < $1.key }) {
      guard let pending = try pending(id) else { continue }
      for user in Set(grants.map(\.owner)) { try reevaluate(user, without: pending, evaluationContext) }
    }
    return ended.count
  }

  fileprivate func reevaluate(
    _ user: UserID, without pending: StoredPending, _ evaluationContext: EvaluationContext
  ) throws {
    try writer(evaluationContext, requestID: pending.requestID, digest: pending.digest).reevaluateIfChanged(user)
  }
}
