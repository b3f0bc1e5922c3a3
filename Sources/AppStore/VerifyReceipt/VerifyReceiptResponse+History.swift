package import Entitlements
package import struct FoundationEssentials.Date

extension VerifyReceiptResponse {
  /// What the answer says about the customer's purchases.
  ///
  /// Subscriptions are taken from `latest_receipt_info` where the answer has it, else from the receipt: only the former
  /// tells `is_upgraded`, and an upgraded row of the receipt would outlive its successor. What does not expire is taken
  /// from both, joined by transaction ID; a refund that either tells counts.
  ///
  /// - Parameters:
  ///   - environment: the endpoint that answered, for an answer that does not name its store.
  ///   - answeredAt: the `Date` of the HTTP answer (RFC 9110, section 6.6.1). It orders iOS 6-style answers, which name
  ///     no time of their own: a purchase date would let an older answer of the newer style stand against a refund.
  ///   - askedAt: our clock; used only where Apple names no time.
  package func purchaseHistory(
    environment endpoint: StoreEnvironment, answeredAt: Date? = nil, askedAt: Date
  ) -> PurchaseHistory {
    let latest = (latestRows ?? []).map(\.purchase)
    let sent = receiptRows.map(\.purchase)
    var purchases = latest.isEmpty ? sent : latest
    if !latest.isEmpty { purchases += Self.unexpiring(sent, beside: latest) }
    purchases = Self.withoutRepetition(purchases)
    let newestPurchase = purchases.compactMap(\.purchaseDate).max()
    return PurchaseHistory(
      environment: environment ?? endpoint,
      source: .verifyReceipt,
      evidenceTime: requestDate ?? creationDate ?? answeredAt ?? newestPurchase ?? askedAt,
      evaluatedAt: requestDate ?? askedAt,
      purchases: purchases,
      renewals: (renewals ?? []).map(\.renewal))
  }

  /// Rows of the receipt that do not expire: those that the latest rows lack, and those that tell a refund.
  private static func unexpiring(_ sent: [Purchase], beside latest: [Purchase]) -> [Purchase] {
    let known = Dictionary(latest.map { ($0.transactionID, $0) }) { first, _ in first }
    return sent.filter { row in
      guard row.expiresDate == nil else { return false }
      guard let other = known[row.transactionID] else { return true }
      return other.expiresDate == nil && row.cancellationDate != nil
    }
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
