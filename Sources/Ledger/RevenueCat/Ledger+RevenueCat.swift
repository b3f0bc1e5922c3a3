package import Entitlements
package import struct FoundationEssentials.Date

/// RevenueCat's reports.
extension Ledger {
  /// Whether the time of a report has come, or has changed a purchase at another store.
  package func hasRevenueCatWork(dueAt now: Date) async throws(LedgerError) -> Bool {
    try await read { tables in
      try !tables.storeTransfers.turns(dueAt: now, limit: 1).isEmpty
        || !tables.otherStores.reports(dueAt: now, limit: 1).isEmpty
    }
  }

  /// The reports whose time has come, the longest waiting first.
  package func dueReports(at now: Date, limit: Int) async throws(LedgerError) -> [DueRevenueCatReport] {
    try await read { tables in
      try tables.otherStores.reports(dueAt: now, limit: limit).map { report in
        report.key.isOfAnotherStore ? .over(report.key) : .hint(RevenueCatHint(report))
      }
    }
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
