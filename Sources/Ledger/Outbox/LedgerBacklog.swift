internal import Entitlements
package import struct FoundationEssentials.Date

/// The state of the queues, for operators.
package struct LedgerBacklog: Hashable, Sendable {
  /// Users whose row is outdated.
  package var updates = 0
  /// Since when the oldest of them waits.
  package var oldestUpdate: Date?
  /// The store's code for the last failed update.
  package var lastProblem: String?
  /// Users without a row.
  package var missingProfiles = 0
  /// Acknowledged receipts without a verdict.
  package var pendingReceipts = 0
  package var oldestPendingReceipt: Date?
  /// Subscriptions due for a check.
  package var rechecksDue = 0
  /// When the longest overdue one was due.
  package var oldestRecheck: Date?
  /// Apple's requests for consumption information that wait, and those that were missed in the last week.
  package var consumptionRequests = 0
  package var missedConsumptionRequests = 0
  /// Users whom Apple has to be told.
  package var accountTokens = 0

  package init() {}
}

extension Ledger {
  /// The state of the queues.
  package func backlog(at now: Date) async throws(LedgerError) -> LedgerBacklog {
    try await read { tables in try tables.backlog(at: now) }
  }
}

extension LedgerTables {
  func backlog(at now: Date) throws -> LedgerBacklog {
    var backlog = LedgerBacklog()
    // One index covers the outbox, and serves both of these queries.
    try first(
      """
      SELECT count(*) FILTER (WHERE state = 'waiting'), count(*) FILTER (WHERE state = 'missing'),
        min(waiting_since) FILTER (WHERE state = 'waiting')
      FROM outbox
      """
    ) { row in
      backlog.updates = try row.get(0)
      backlog.missingProfiles = try row.get(1)
      backlog.oldestUpdate = try row.get(2)
    }
    if backlog.updates > 0 {
      backlog.lastProblem = try first(
        """
        SELECT problem FROM outbox WHERE key = (
          SELECT key FROM outbox WHERE state = 'waiting' AND problem_at IS NOT NULL ORDER BY problem_at DESC LIMIT 1)
        """)
    }
    backlog.pendingReceipts = try first("SELECT count(*) FROM pending_receipt") ?? 0
    // Ordered by ID, the order of arrival: a scan of the rows would read every receipt.
    backlog.oldestPendingReceipt = try first("SELECT received_at FROM pending_receipt ORDER BY id LIMIT 1")
    try first("SELECT count(*), min(scheduled_at) FROM purchase WHERE due_at <= ?", now) { row in
      backlog.rechecksDue = try row.get(0)
      backlog.oldestRecheck = try row.get(1)
    }
    backlog.consumptionRequests = try first("SELECT count(*) FROM consumption_request WHERE due_at > 0") ?? 0
    backlog.missedConsumptionRequests =
      try first(
        "SELECT count(*) FROM consumption_request WHERE changed_at > ? AND state = 'missed'",
        now.advanced(by: .seconds(-7 * 86_400))) ?? 0
    backlog.accountTokens = try first("SELECT count(*) FROM account_token_due WHERE due_at > 0") ?? 0
    return backlog
  }
}
