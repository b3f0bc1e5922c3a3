package import Entitlements
package import struct FoundationEssentials.Date

/// RevenueCat's reports.
extension Ledger {
  /// Whether the time of a report has come, or has changed a purchase at another store.
  package func hasRevenueCatWork(dueAt now: Date) async throws(LedgerError) -> Bool {
    try await read { tables in
      try tables.exists("SELECT 1 FROM revenuecat_purchase WHERE due_at <= ? LIMIT 1", now)
        || tables.exists("SELECT 1 FROM revenuecat_report WHERE due_at <= ? LIMIT 1", now)
    }
  }

  /// The reports whose time has come, the longest waiting first.
  /// - Parameter onUnreadable: gets those that cannot be read, and are put off for a day.
  package func dueReports(
    at now: Date, limit: Int, onUnreadable: ([SubscriptionKey]) -> Void = { _ in }
  ) async throws(LedgerError) -> [DueRevenueCatReport] {
    let reports = try await engine.submit { tables in try tables.otherStores.reports(dueAt: now, limit: limit) }
    if !reports.unreadable.isEmpty { onUnreadable(reports.unreadable) }
    return reports.due.map { $0.key.isOfAnotherStore ? .over($0.key) : .hint(RevenueCatHint($0)) }
  }

  /// Looks a day later at a report whose user cannot be read.
  package func putOffReport(_ key: SubscriptionKey, at now: Date) async throws(LedgerError) {
    try await engine.submit { tables in try tables.otherStores.putOff(key, at: now) }
  }

  /// The purchases at other stores that time alone has changed.
  package func revenueCatTurns(dueAt now: Date, limit: Int) async throws(LedgerError) -> [RevenueCatTurn] {
    try await read { tables in try tables.storeTransfers.turns(dueAt: now, limit: limit) }
  }

  /// Schedules the next change by time alone.
  package func followed(
    _ key: SubscriptionKey, at now: Date, _ nextTurn: @escaping NextCheck
  ) async throws(LedgerError) {
    try await engine.submit { tables in
      guard let purchase = try tables.otherStores.purchase(key) else { return }
      let moment = max(now.inWholeMilliseconds, purchase.evidence.evaluatedAt)
      try tables.storeTransfers.setTurn(of: key, at: nextTurn(purchase.evidence, moment))
    }
  }

  /// Looks at a purchase again later.
  package func postponeTurn(of key: SubscriptionKey, until due: Date) async throws(LedgerError) {
    try await engine.submit { tables in try tables.storeTransfers.setTurn(of: key, at: due) }
  }
}
