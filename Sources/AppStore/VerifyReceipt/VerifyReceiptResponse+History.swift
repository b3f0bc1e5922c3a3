import Entitlements

import struct FoundationEssentials.Date

extension VerifyReceiptResponse {
  /// The purchases of the answer.
  ///
  /// Subscriptions come from `latest_receipt_info` if the answer has it, else from the receipt: only the former has
  /// `is_upgraded`, and an upgraded row of the receipt would outlive its successor. One that no latest row can have
  /// replaced comes from the receipt. Purchases without an expiry come from both, joined by transaction ID; a refund in
  /// either counts.
  ///
  /// Apple only decodes a purchase without an expiry that the receipt alone has. It is reported as of the receipt's
  /// creation: a refund since then is not in it. That a row was upgraded is inferred, as the receipt never says so.
  ///
  /// - Parameters:
  ///   - environment: the endpoint that answered, for an answer that does not name its store.
  ///   - answeredAt: the `Date` of the HTTP answer (RFC 9110, section 6.6.1). It orders iOS 6-style answers, which have
  ///     no time of their own: a purchase date would let an older answer of the newer style win over a refund.
  ///   - askedAt: our clock, used only if Apple gives no time.
  func purchaseHistory(
    environment endpoint: StoreEnvironment, answeredAt: Date? = nil, askedAt: Date
  ) -> PurchaseHistory {
    let store = environment ?? endpoint
    var purchases = latestRows ?? decoded(receiptRows)
    if latestRows != nil {
      let later = unreplaced(beside: purchases, in: store, at: requestDate ?? askedAt)
      purchases += decoded(Self.unexpiring(receiptRows, beside: purchases) + later)
    }
    purchases = Self.withoutRepetition(purchases)
    let newestPurchase = purchases.lazy.compactMap(\.purchaseDate).max()
    var history = PurchaseHistory(
      environment: store,
      source: .verifyReceipt,
      evidenceTime: requestDate ?? creationDate ?? answeredAt ?? newestPurchase ?? askedAt,
      evaluatedAt: requestDate ?? askedAt,
      purchases: purchases,
      renewals: renewals ?? [])
    if originalVersion != nil || originalPurchaseDate != nil {
      history.originalPurchase = OriginalPurchase(
        version: originalVersion, date: originalPurchaseDate, signedAt: creationDate ?? history.evidenceTime)
    }
    return history
  }

  /// The subscriptions' rows of the receipt that no latest row can have replaced: those that were bought later than every
  /// one, and those that run and have no successor.
  ///
  /// A successor was bought no earlier, and has the same original transaction ID or is of the same product. The sandbox
  /// gives each renewal an ID of its own: any may be the successor.
  ///
  /// One that runs, and of whose subscription the answer says nothing else, is as of the receipt.
  private func unreplaced(
    beside latest: [Purchase], in environment: StoreEnvironment, at moment: Date
  ) -> [Purchase] {
    let newest = latest.lazy.compactMap(\.purchaseDate).max() ?? .distantFuture
    let renewing = Set((renewals ?? []).compactMap(\.originalTransactionID))
    return receiptRows.compactMap { row in
      guard let end = row.expiresDate, let begin = row.purchaseDate else { return nil }
      if newest < begin { return row }
      guard environment == .production, moment < end, row.cancellationDate == nil else { return nil }
      let isReplaced = latest.contains { other in
        let isOfSubscription =
          other.originalTransactionID == row.originalTransactionID
          || other.productID == row.productID && other.ownership == row.ownership
        return isOfSubscription && begin <= other.purchaseDate ?? .distantFuture
      }
      guard !isReplaced else { return nil }
      var row = row
      if !renewing.contains(row.originalTransactionID) { row.reportedAt = creationDate }
      return row
    }
  }

  /// Rows that Apple only decoded.
  private func decoded(_ rows: [Purchase]) -> [Purchase] {
    let upgraded = PurchaseHistory.upgraded(among: rows)
    return rows.map { row in
      var row = row
      row.isUpgraded = row.isUpgraded || upgraded.contains(row.transactionID)
      guard row.expiresDate == nil else { return row }
      // A receipt of iOS 6 has no date: it was made with its purchase. Apple says in its answer that it was cancelled.
      row.reportedAt = creationDate ?? (row.cancellationDate == nil ? row.purchaseDate : nil)
      return row
    }
  }

  /// The rows of the receipt without an expiry that the latest rows lack, or that have a refund.
  private static func unexpiring(_ sent: [Purchase], beside latest: [Purchase]) -> [Purchase] {
    let unexpiring = sent.filter { $0.expiresDate == nil }
    guard !unexpiring.isEmpty else { return [] }
    let known = Dictionary(latest.map { ($0.transactionID, $0) }) { first, _ in first }
    return unexpiring.filter { row in
      guard let other = known[row.transactionID] else { return true }
      return other.expiresDate == nil && row.cancellationDate != nil
    }
  }

  /// Each row once. A transaction that is listed as cancelled and as running counts as cancelled.
  private static func withoutRepetition(_ rows: [Purchase]) -> [Purchase] {
    var transactions = Set<TransactionID>(minimumCapacity: rows.count)
    guard rows.contains(where: { !transactions.insert($0.transactionID).inserted }) else { return rows }
    let cancelled = Set(rows.lazy.filter { $0.cancellationDate != nil }.map(\.transactionID))
    var seen: Set<Purchase> = []
    return rows.filter { row in
      if row.cancellationDate == nil, cancelled.contains(row.transactionID) { return false }
      return seen.insert(row).inserted
    }
  }
}
