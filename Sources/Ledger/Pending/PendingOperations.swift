internal import Entitlements
internal import struct FoundationEssentials.Date

/// Queues a receipt for later, and grants provisionally what its signature proves.
struct PostponeOperation {
  let receipt: PendingReceipt
  let digest: ReceiptDigest
  let provisional: [SubscriptionEvidence]
  let evaluationContext: EvaluationContext
  let tables: LedgerTables

  func run() throws -> PostponeOutcome {
    let pending: Int64
    switch try tables.postpone(receipt, digest: digest) {
    case .row(let id): pending = id
    case .tooMany: return .tooMany
    case .full: return .full
    }
    let granted = try provisional.filter { try grant($0, by: pending) }
    guard let newest = granted.map(\.evidenceTime).max() else { return .kept }
    try tables.writer(
      evaluationContext, requestID: receipt.requestID, digest: digest, evidenceAt: StoredForm.milliseconds(newest)
    ).reevaluateIfChanged(receipt.user)
    return .kept
  }

  /// Adds a provisional grant if the purchase has no other owner, no evidence as new, no grant yet, and no reservation
  /// by another user. Evidence from notifications that arrived while it was unclaimed counts: a revocation, or another
  /// user's account token.
  /// - Returns: whether the grant counts.
  private func grant(_ evidence: SubscriptionEvidence, by pending: Int64) throws -> Bool {
    var evidence = evidence
    guard try !tables.names(evidence, anotherThan: receipt.user) else { return false }
    if let reported = try tables.unclaimed(evidence.key)?.evidence {
      guard try !tables.names(reported, anotherThan: receipt.user) else { return false }
      evidence.leaveOut(endedBy: [reported])
      guard !evidence.purchases.isEmpty else { return false }
    }
    guard let until = evidence.provisionalUntil else { return false }
    if let known = try tables.purchase(evidence.key) {
      guard known.owner == receipt.user || known.owner.isErased,
        known.evidenceAt < (try StoredForm.milliseconds(evidence.evidenceTime))
      else { return false }
    }
    var grant = LedgerTables.StoredGrant(evidence: evidence, owner: receipt.user, pending: pending)
    grant.isOver = grant.isReservation
    if let earlier = try tables.grant(on: evidence.key) {
      guard earlier.isReservation, earlier.owner == receipt.user, !grant.isReservation else { return false }
      try tables.removeGrant(on: evidence.key)
    }
    try tables.save(grant, until: try StoredForm.milliseconds(until))
    return !grant.isReservation
  }
}

/// Ends provisional grants and reevaluates the users who had them.
struct WithdrawOperation {
  let evaluationContext: EvaluationContext
  let tables: LedgerTables

  /// Removes a queued receipt after its verdict.
  func settle(_ id: Int64) throws {
    guard let pending = try tables.pending(id) else { return }
    let hadGrants = try tables.grants(of: id).contains { !$0.isReservation }
    try tables.removePending(id)
    if hadGrants { try evaluate(pending.user, for: pending) }
  }

  /// Ends the grants of a queued receipt that stays queued.
  func refuse(_ id: Int64, retryAt due: Date) throws {
    guard let pending = try tables.pending(id) else { return }
    try tables.retryPending(id, at: due)
    let granted = try tables.grants(of: id).filter { !$0.isOver }
    guard !granted.isEmpty else { return }
    for grant in granted { try tables.endGrant(on: grant.evidence.key) }
    try evaluate(pending.user, for: pending)
  }

  /// - Returns: how many grants ended.
  func endOverdue() throws -> Int {
    let ended = try tables.grants(endedAt: evaluationContext.evaluatedAt)
    for grant in ended { try tables.endGrant(on: grant.evidence.key) }
    for (id, grants) in Dictionary(grouping: ended, by: \.pending).sorted(by: { $0.key < $1.key }) {
      guard let pending = try tables.pending(id) else { continue }
      for user in Set(grants.map(\.owner)) { try evaluate(user, for: pending) }
    }
    return ended.count
  }

  private func evaluate(_ user: UserID, for pending: LedgerTables.StoredPending) throws {
    try tables.writer(evaluationContext, requestID: pending.requestID, digest: pending.digest).reevaluateIfChanged(user)
  }
}
