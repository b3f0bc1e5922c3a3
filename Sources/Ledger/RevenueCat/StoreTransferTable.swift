internal import Entitlements
internal import struct FoundationEssentials.Date

/// Transfers between users at other stores.
struct StoreTransferTable: LedgerTable {
  let tables: LedgerTables

  /// The purchases that time alone has changed, the longest overdue first.
  func turns(dueAt now: Date, limit: Int) throws -> [RevenueCatTurn] {
    try all(
      """
      SELECT environment, original_transaction_id, coalesce(account.spelling, user_id)
      FROM revenuecat_purchase LEFT JOIN account ON account.key = user_id
      WHERE due_at <= ? ORDER BY due_at LIMIT ?
      """, now, max(0, limit), into: RevenueCatTurn.init(key:owner:))
  }

  func setTurn(of key: SubscriptionKey, at due: Date?) throws {
    try execute(
      "UPDATE revenuecat_purchase SET due_at = ? WHERE environment = ? AND original_transaction_id = ?", due, key)
  }

  // MARK: Transfers

  func add(_ transfer: StoreTransfer) throws {
    try execute(
      """
      INSERT INTO revenuecat_transfer (from_user_id, id, to_user_id, at, is_of_inactive) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT (from_user_id, id) DO NOTHING
      """, transfer.from.key, transfer.id, transfer.to.key, transfer.at, transfer.isOfInactive)
  }

  /// The transfers of a user, and of those to whom these lead.
  func transfers(from user: UserID) throws -> [StoreTransfer] {
    var found: [StoreTransfer] = []
    var seen: Set<String> = [user.key]
    var next = [user.key]
    // A chain of people, each of whom had the last one's purchases.
    while let key = next.popLast(), found.count < 1_000 {
      let transfers = try all(
        "SELECT id, at, from_user_id, to_user_id, is_of_inactive FROM revenuecat_transfer WHERE from_user_id = ? LIMIT 1000",
        key, into: StoreTransfer.init(id:at:from:to:isOfInactive:))
      found += transfers
      for transfer in transfers where seen.insert(transfer.to.key).inserted { next.append(transfer.to.key) }
    }
    return found
  }
}

extension LedgerTables { var storeTransfers: StoreTransferTable { StoreTransferTable(tables: self) } }

extension RevenueCatReport.Store: StoredWord {}
