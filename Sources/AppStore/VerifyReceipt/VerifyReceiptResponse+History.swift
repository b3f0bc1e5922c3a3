package import Entitlements
package import struct FoundationEssentials.Date

extension VerifyReceiptResponse {
  /// What the answer says about the customer's purchases.
  ///
  /// Subscriptions are taken from `latest_receipt_info` where the answer has it, else from the receipt: only the former
  /// tells `is_upgraded`, and an upgraded row of the receipt would outlive its successor. What does not expire is taken
  /// from both, joined by transaction ID.
  ///
  /// - Parameters:
  ///   - environment: the endpoint that answered, for an answer that does not name its store.
  ///   - askedAt: our clock; used only where Apple names no time.
  package func purchaseHistory(environment endpoint: StoreEnvironment, askedAt: Date) -> PurchaseHistory {
    let latest = (latestRows ?? []).map(\.purchase)
    let sent = receiptRows.map(\.purchase)
    var purchases = latest.isEmpty ? sent : latest
    if !latest.isEmpty {
      let known = Set(latest.map(\.transactionID))
      purchases += sent.filter { $0.expiresDate == nil && !known.contains($0.transactionID) }
    }
    purchases = Self.withoutRepetition(purchases)
    let newestPurchase = purchases.compactMap(\.purchaseDate).max()
    return PurchaseHistory(
      environment: environment ?? endpoint,
      source: .verifyReceipt,
      evidenceTime: requestDate ?? creationDate ?? newestPurchase ?? askedAt,
      judgedAt: requestDate ?? askedAt,
      purchases: purchases,
      renewals: (renewals ?? []).map(\.renewal))
  }

  /// Each row once. Where the same transaction is there as taken back and as running, the former counts.
  private static func withoutRepetition(_ rows: [Purchase]) -> [Purchase] {
    let cancelled = Set(rows.lazy.filter { $0.cancellationDate != nil }.map(\.transactionID))
    var seen: Set<Purchase> = []
    return rows.filter { row in
      if row.cancellationDate == nil, cancelled.contains(row.transactionID) { return false }
      return seen.insert(row).inserted
    }
  }
}
