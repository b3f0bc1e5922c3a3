internal import Entitlements
internal import struct FoundationEssentials.Date

extension LedgerTables {
  /// Keeps the earlier transactions of a purchase for the figures: an answer of the Server API has the last one alone.
  func keepPast(of former: SubscriptionEvidence, replacedBy evidence: SubscriptionEvidence, of purchase: Int64) throws {
    guard evidence.source == .serverAPI, evidence.key.environment == .production else { return }
    let newest = evidence.purchases.compactMap(\.purchaseDate).max() ?? .distantPast
    let left = former.purchases.filter { one in
      one.ownership == .purchased && one.purchaseDate.map { $0 < newest } ?? false
        && !evidence.purchases.contains { $0.transactionID == one.transactionID }
    }
    guard !left.isEmpty else { return }
    var past = evidence
    past.renewals = []
    past.purchases = left
    past.purchases += try pastTransactions(of: purchase).filter { one in
      !left.contains { $0.transactionID == one.transactionID }
    }
    past.purchases.sort { ($0.purchaseDate ?? .distantPast) > ($1.purchaseDate ?? .distantPast) }
    past.purchases = Array(past.purchases.prefix(SubscriptionEvidence.partLimit))
    try execute(Self.upsertPast, purchase, StoredForm.text(past.withoutAccounts { _ in true }))
  }

  private static let upsertPast = SQL.upsert("past_evidence", key: "purchase_id", "evidence")

  func pastTransactions(of purchase: Int64) throws -> [Purchase] {
    let key = SubscriptionKey(environment: .production, originalTransactionID: "")
    return try first("SELECT evidence FROM past_evidence WHERE purchase_id = ?", purchase) {
      try StoredForm.rows($0.get(0), of: key).purchases
    } ?? []
  }
}

extension SubscriptionEvidence {
  /// The evidence with earlier transactions that the last answer left out, for the figures.
  func including(past: [Purchase]) -> SubscriptionEvidence {
    // An answer of verifyReceipt has the whole history.
    guard source != .verifyReceipt || coverage != .snapshot else { return self }
    let known = Set(purchases.map(\.transactionID))
    var whole = self
    whole.purchases += past.filter { !known.contains($0.transactionID) }
    return whole
  }
}
