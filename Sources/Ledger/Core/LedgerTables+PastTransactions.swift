internal import Entitlements
internal import struct FoundationEssentials.Date

/// The transactions that were verified once and that a purchase's evidence does not have, for the figures alone: an answer of
/// the Server API has the last one, and takes the place of older reports.
extension LedgerTables {
  /// Keeps transactions of a purchase, each once, as it was reported last.
  func keepPast(_ parts: SubscriptionEvidence, of purchase: Int64) throws {
    let known = try past(of: purchase, parts.key)
    let past = known?.merging(parts) ?? parts
    guard past.purchases != known?.purchases else { return }
    try execute(Self.upsertPast, purchase, StoredForm.text(past.withoutAccounts { _ in true }))
    try noteFigures(of: purchase)
  }

  private static let upsertPast = SQL.upsert("past_evidence", key: "purchase_id", "evidence")

  func pastTransactions(of purchase: Int64) throws -> [Purchase] {
    try past(of: purchase, SubscriptionKey(environment: .production, originalTransactionID: ""))?.purchases ?? []
  }

  func past(of purchase: Int64, _ key: SubscriptionKey) throws -> SubscriptionEvidence? {
    // Each row has the time of its report.
    try first("SELECT evidence FROM past_evidence WHERE purchase_id = ?", purchase) { row in
      try StoredForm.evidence(row.get(0), of: key, source: .signature, evidenceAt: 0, evaluatedAt: 0)
    }
  }
}

extension SubscriptionEvidence {
  /// The transactions of some reports that this evidence leaves out; `nil` if there is none.
  func leftOut(of reports: [SubscriptionEvidence]) -> SubscriptionEvidence? {
    guard key.environment == .production, !key.isOfApp else { return nil }
    let kept = Set(purchases.map(\.transactionID))
    return reports.map { $0.parts { $0.ownership == .purchased && !kept.contains($0.transactionID) } }
      .filter { !$0.purchases.isEmpty }
      .reduce(nil) { $0?.merging($1) ?? $1 }
  }

  /// The evidence with earlier transactions that the last answer left out, for the figures.
  func including(past: [Purchase]) -> SubscriptionEvidence {
    let known = Set(purchases.map(\.transactionID))
    // Equal on all devices, where verifyReceipt numbers a restored transaction anew:
    // https://developer.apple.com/documentation/appstorereceipts/web_order_line_item_id
    let orders = Set(purchases.compactMap(\.webOrderLineItemID))
    var whole = self
    whole.purchases += past.filter { one in
      !known.contains(one.transactionID) && !(one.webOrderLineItemID.map(orders.contains) ?? false)
    }
    return whole
  }
}
