package import Entitlements

extension Ledger {
  /// Evidence of a user's purchases, with the earlier transactions that Apple's last answers left out: the Server API
  /// answers the last one alone.
  package func includingPast(
    _ evidence: [SubscriptionEvidence], of user: UserID
  ) async throws(LedgerError) -> [SubscriptionEvidence] {
    try await read { tables in
      var past: [SubscriptionKey: [Purchase]] = [:]
      for id in try tables.account(of: user)?.purchases ?? [] where id > 0 {
        if let key = try tables.key(ofPurchase: id) { past[key] = try tables.pastTransactions(of: id) }
      }
      return evidence.map { $0.including(past: past[$0.key] ?? []) }
    }
  }

  /// Keeps the transactions of known purchases that their evidence leaves out, each once.
  package func keepPast(_ reports: [SubscriptionEvidence]) async throws(LedgerError) {
    try await engine.submit { tables in
      for report in try reports.map(tables.followingMigrations) {
        guard let purchase = try tables.purchase(report.key), let id = purchase.id,
          let past = purchase.evidence.leftOut(of: [report])
        else { continue }
        try tables.keepPast(past, of: id)
      }
    }
  }
}
