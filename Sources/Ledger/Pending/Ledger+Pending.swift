package import Entitlements
package import struct FoundationEssentials.Date

extension Ledger {
  /// Queues a receipt until Apple can be asked about it. The same receipt of the same user is queued once.
  ///
  /// - Parameters:
  ///   - provisional: what the receipt's signature proves and may count meanwhile. A purchase with another owner, with
  ///     another user's grant or with newer evidence is left out; an existing grant is never prolonged. A grant that
  ///     ends at its evaluation time counts for nothing and is a reservation: no other user is granted the purchase
  ///     while the receipt is queued, and this user may be, later.
  ///   - evaluationContext: how the user is evaluated with the grant.
  package func postpone(
    _ receipt: PendingReceipt, provisional: [SubscriptionEvidence], _ evaluationContext: EvaluationContext
  ) async throws(LedgerError) -> PostponeOutcome {
    let digest = ReceiptDigest(of: receipt.base64)
    return try await engine.submit { tables in
      try PostponeOperation(
        receipt: receipt, digest: digest, provisional: provisional, evaluationContext: evaluationContext,
        tables: tables
      ).run()
    }
  }

  /// How long a replica has for the receipts that it took.
  static let pendingLease = Duration.seconds(120)

  /// The queued receipts that are due, the longest waiting first. Where replicas share the ledger, each gets a receipt for
  /// itself, for two minutes.
  package func pendingReceipts(dueAt now: Date, limit: Int) async throws(LedgerError) -> [PendingReceipt] {
    let due = try await read { tables in try tables.pendingReceipts(dueAt: now, limit: limit) }
    guard engine.isShared, !due.isEmpty else { return due }
    let lease = now.advanced(by: Self.pendingLease)
    return try await engine.submit { tables in
      try tables.claimPending(dueAt: now, until: lease, limit: limit)
    }
  }

  /// Counts a failed attempt and schedules the next one.
  package func retryPending(_ id: Int64, at due: Date) async throws(LedgerError) {
    try await engine.submit { tables in try tables.retryPending(id, at: due) }
  }

  /// Ends the grants on the signature of a queued receipt that Apple rejects, and reevaluates the user. The receipt stays
  /// queued; the failed attempt is counted and the next one scheduled.
  package func refusePending(
    _ id: Int64, retryAt due: Date, _ evaluationContext: EvaluationContext
  ) async throws(LedgerError) {
    try await engine.submit { tables in
      try WithdrawOperation(evaluationContext: evaluationContext, tables: tables).refuse(id, retryAt: due)
    }
  }

  /// Makes receipts due now that were postponed during an outage of Apple's.
  package func makePendingDue(at now: Date) async throws(LedgerError) {
    let claimed = engine.isShared ? now.advanced(by: Self.pendingLease) : now
    try await engine.submit { tables in
      try tables.makePendingDue(at: StoredForm.milliseconds(now), butClaimedUntil: StoredForm.milliseconds(claimed))
    }
  }

  /// Removes a queued receipt after its verdict, ends the grants on its signature, and reevaluates the user.
  package func settlePending(_ id: Int64, _ evaluationContext: EvaluationContext) async throws(LedgerError) {
    try await engine.submit { tables in
      try WithdrawOperation(evaluationContext: evaluationContext, tables: tables).settle(id)
    }
  }

  /// Ends the provisional grants that have expired, and reevaluates their users.
  /// - Returns: how many grants ended.
  package func endProvisional(_ evaluationContext: EvaluationContext) async throws(LedgerError) -> Int {
    // Usually there is nothing to end, and a write costs an fsync.
    let isIdle = try await read { tables in try tables.grants(endedAt: evaluationContext.evaluatedAt).isEmpty }
    guard !isIdle else { return 0 }
    return try await engine.submit { tables in
      try WithdrawOperation(evaluationContext: evaluationContext, tables: tables).endOverdue()
    }
  }
}
