internal import Entitlements
internal import struct FoundationEssentials.Date

/// Searches for support.
struct SupportTable: LedgerTable {
  let tables: LedgerTables

  func ownedPurchases(_ id: OriginalTransactionID) throws -> [OwnedPurchase] {
    try StoreEnvironment.allCases.compactMap { environment in
      var key = SubscriptionKey(environment: environment, originalTransactionID: id)
      key = try tables.purchases.successor(of: key) ?? key
      let stored =
        try key.isOfAnotherStore
        ? tables.otherStores.purchase(key).map { ($0.id, $0.evidence, $0.owner) }
        : tables.purchases.purchase(key).map { ($0.id, $0.evidence, $0.owner) }
      guard case (let row?, let evidence, let owner)? = stored else { return nil }
      let changes = try tables.events.changes(of: row, limit: OwnedPurchase.changeLimit)
      return OwnedPurchase(evidence: evidence, owner: owner, changes: changes)
    }
  }

  /// The receipts behind a user's purchases, each once, by newest evidence first.
  func receipts(of user: UserID, limit: Int) throws -> [OwnedReceipt] {
    let newest = try tables.purchases.purchases(of: tables.accounts.account(of: user)).sorted {
      ($0.evidenceAt, $0.proof) > ($1.evidenceAt, $1.proof)
    }
    var proofs: Set<Int64> = []
    var seen: Set<KeptReceipt> = []
    var receipts: [OwnedReceipt] = []
    for purchase in newest where receipts.count < limit && proofs.insert(purchase.proof).inserted {
      var receipt = try tables.proofs.proof(purchase.proof).receipt
      receipt.owner = user
      // One that two purchases came to have one after the other has a row for each.
      guard seen.insert(receipt).inserted else { continue }
      receipts.append(OwnedReceipt(receipt: receipt, key: purchase.evidence.key))
    }
    return receipts
  }

  // MARK: Searching

  /// The tables that store evidence.
  enum EvidenceTable: String, CaseIterable {
    case purchase
    case unclaimed = "unclaimed_evidence"
  }

  /// Searches one page of a table, from the newest row on.
  ///
  /// - Parameters:
  ///   - id: digits only.
  ///   - start: rows from here on are skipped.
  /// - Returns: the rows with such a transaction, and where the next page begins; zero at the end.
  func purchases(
    with id: TransactionID, in table: EvidenceTable, below start: Int64, limit: Int
  ) throws -> (keys: [SubscriptionKey], isLineItem: Bool, end: Int64) {
    let limit = max(1, limit)
    // As `StoredForm` writes it, among other texts of the row.
    let member = "%\"\(id.rawValue)\"%"
    let end: Int64?
    let place: String
    switch table {
    case .purchase:
      place = "id"
      end = try first(
        """
        SELECT coalesce(min(id), 0) FROM (SELECT id FROM purchase WHERE id < ? ORDER BY id DESC LIMIT ?) AS page
        """, start, limit)
    case .unclaimed:
      place = "rowid"
      end = try first(
        """
        SELECT coalesce(min(place), 0) FROM
          (SELECT rowid AS place FROM unclaimed_evidence WHERE rowid < ? ORDER BY rowid DESC LIMIT ?) AS page
        """, start, limit)
    }
    let found = try all(
      SQL(
        """
        SELECT environment, original_transaction_id, evidence FROM \(table.rawValue)
        WHERE \(place) >= ? AND \(place) < ? AND evidence LIKE ?
        """), end ?? 0, start, member, as: (SubscriptionKey, String).self)
    let purchases = try found.map { key, rows in (key, try StoredForm.rows(rows, of: key).purchases) }
    let own = purchases.filter { $0.1.contains { $0.transactionID == id } }
    let items = purchases.filter { $0.1.contains { $0.webOrderLineItemID == id.rawValue } }
    return ((own.isEmpty ? items : own).map { $0.0 }, own.isEmpty && !items.isEmpty, end ?? 0)
  }
}

extension LedgerTables { var support: SupportTable { SupportTable(tables: self) } }
