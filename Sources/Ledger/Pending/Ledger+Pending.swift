package import Entitlements
package import struct FoundationEssentials.Date

extension Ledger {
  /// How long a replica has for the receipts that it took.
  static let pendingLease = Duration.seconds(120)

  /// Queues a receipt.
  ///
  /// In PostgreSQL the size of the table tells at no cost that there is room. It has dead rows, too: where it is too large,
  /// the rows that wait are summed, in a read of its own. A sum in the transaction would conflict with all others.
  package func run(_ postpone: Postpone) async throws(LedgerError) -> Postpone.Outcome {
    let outcome = try await engine.submit { tables in try postpone.run(tables) }
    guard outcome == .full, engine.isShared else { return outcome }
    let total = try await read { tables in try tables.pending.size() }
    return try await engine.submit { tables in try postpone.run(tables, waiting: total) }
  }

  /// The queued receipts that are due, the longest waiting first. Where replicas share the ledger, each gets a receipt for
  /// itself, for two minutes.
  package func pendingReceipts(dueAt now: Date, limit: Int) async throws(LedgerError) -> [PendingReceipt] {
    let due = try await read { tables in try tables.pending.receipts(dueAt: now, limit: limit) }
    guard engine.isShared, !due.isEmpty else { return due }
    let lease = now.advanced(by: Self.pendingLease)
    return try await engine.submit { tables in try tables.pending.claim(dueAt: now, until: lease, limit: limit) }
  }

  /// Schedules the next attempt after a failed one.
  /// - Parameter isCounted: whether the failure makes later pauses longer.
  package func retryPending(_ id: Int64, at due: Date, isCounted: Bool = true) async throws(LedgerError) {
    try await engine.submit { tables in try tables.pending.retry(id, at: due, isCounted: isCounted) }
  }

  /// Makes receipts due now that would be due soon. One whose claim is about to end may be among them, and tried twice.
  package func makePendingDue(at now: Date, within wait: Duration) async throws(LedgerError) {
    try await engine.submit { tables in
      try tables.execute(
        "UPDATE pending_receipt SET due_at = ? WHERE due_at > ? AND due_at <= ?", now, now, now.advanced(by: wait))
    }
  }

  /// Gives back receipts that were taken and not tried.
  package func giveBackPending(_ receipts: ArraySlice<PendingReceipt>, at now: Date) async throws(LedgerError) {
    guard engine.isShared else { return }
    try await engine.submit {
      for receipt in receipts { try $0.pending.retry(receipt.id, at: now, isCounted: false) }
    }
  }

  /// Ends the provisional grants that have expired, and reevaluates their users.
  /// - Parameter onUnreadable: gets the grants of users who cannot be read. They do not end yet.
  /// - Returns: how many grants ended.
  package func endProvisional(
    _ evaluationContext: EvaluationContext, onUnreadable: ([SubscriptionKey]) -> Void = { _ in }
  ) async throws(LedgerError) -> Int {
    // Usually there is nothing to end, and a write costs an fsync.
    guard try await read({ try $0.provisionalGrants.hasAny(endedAt: evaluationContext.evaluatedAt) }) else {
      return 0
    }
    let end = try await engine.submit { tables in try tables.pending.endOverdueGrants(evaluationContext) }
    if !end.unreadable.isEmpty { onUnreadable(end.unreadable) }
    return end.ended
  }
}
