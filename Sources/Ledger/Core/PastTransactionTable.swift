internal import Entitlements
internal import struct FoundationEssentials.Date

/// The transactions that were verified once and that a purchase's evidence does not have, for the figures and for what a user
/// had before: an answer of the Server API has the last one, and takes the place of older reports. No verdict reads them.
struct PastTransactionTable: LedgerTable {
  let tables: LedgerTables

  /// Keeps transactions of a purchase, each once, as it was reported last.
  func keep(_ parts: SubscriptionEvidence, of purchase: Int64) throws {
    let known = try past(of: purchase, parts.key)
    let past = known?.merging(parts) ?? parts
    guard past.purchases != known?.purchases else { return }
    try execute(Self.upsertPast, purchase, StoredForm.text(past.withoutAccounts { _ in true }))
    try tables.marks.markFigures(of: purchase)
  }

  private static let upsertPast = SQL.upsert("past_evidence", key: "purchase_id", "evidence")

  func transactions(of purchase: Int64) throws -> [Purchase] {
    try past(of: purchase, SubscriptionKey(environment: .production, originalTransactionID: ""))?.purchases ?? []
  }

  /// All evidence on a user, with the transactions that it no longer has.
  func wholeEvidence(of account: Account) throws -> [SubscriptionEvidence] {
    try account.purchases.compactMap { try tables.otherStores.countable($0)?.evidence }
      + tables.provisionalGrants.evidence(of: account.user)
  }

  func past(of purchase: Int64, _ key: SubscriptionKey) throws -> SubscriptionEvidence? {
    // Each row has the time of its report.
    try first("SELECT evidence FROM past_evidence WHERE purchase_id = ?", purchase) { row in
      try StoredForm.evidence(row.get(0), of: key, source: .signature, evidenceAt: 0, evaluatedAt: 0)
    }
  }
}

extension Purchase {
  /// Adds what another report of the same purchase says of its sale. A restored purchase without an end is as old as it was
  /// first.
  fileprivate func completed(by other: Purchase) -> Purchase {
    var one = self
    if let sale = other.sale { one.sale = one.sale?.completed(by: sale) ?? sale }
    if expiresDate == nil { one.purchaseDate = [self, other].compactMap(\.purchaseDate).min() }
    return one
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

  /// Whether two rows may be of one transaction, as a restored one is: see `including(past:)`.
  private var mayRepeat: Bool {
    var transactions = Set<TransactionID>(minimumCapacity: purchases.count)
    var items = Set<String>(minimumCapacity: purchases.count)
    return purchases.contains { row in
      let item = row.webOrderLineItemID ?? ""
      return row.expiresDate == nil || !transactions.insert(row.transactionID).inserted
        || !item.isEmpty && !items.insert(item).inserted
    }
  }

  /// The evidence with earlier transactions that the last answer left out: each once, as it was reported last, with the
  /// price that any report told.
  func including(past: [Purchase]) -> SubscriptionEvidence {
    guard purchases.count + past.count > 1, !past.isEmpty || mayRepeat else { return self }
    var whole = self
    whole.purchases = []
    var times: [Date] = []
    var (transactions, items): ([TransactionID: Int], [String: Int]) = ([:], [:])
    for (row, time) in purchases.map({ ($0, reportedAt($0)) }) + past.map({ ($0, Date.distantPast) }) {
      // A restored transaction has a new ID. Its line item is the same on all devices, and what has no end was bought once:
      // https://developer.apple.com/documentation/appstorereceipts/web_order_line_item_id
      let item = row.expiresDate == nil ? "" : row.webOrderLineItemID.flatMap { $0.isEmpty ? nil : $0 }
      let place = transactions[row.transactionID] ?? item.flatMap { items[$0] } ?? times.count
      transactions[row.transactionID] = place
      if let item { items[item] = place }
      guard place < times.count else {
        whole.purchases.append(row)
        times.append(time)
        continue
      }
      let (last, other) = times[place] < time ? (row, whole.purchases[place]) : (whole.purchases[place], row)
      whole.purchases[place] = last.completed(by: other)
      times[place] = max(times[place], time)
    }
    return whole
  }
}
