internal import Entitlements
internal import struct FoundationEssentials.Date

/// The ledger's tables, by subject: `tables.usage`, `tables.purchases`. Their statements run inside the caller's transaction.
package struct LedgerTables: SQLRunner, Sendable {
  /// The connection is used by one thread at a time, the one on which it was lent.
  nonisolated(unsafe) let connection: any SQLConnection
  /// The cached reads that the open transaction invalidates.
  let changes = TransactionChanges()

  init(_ connection: any SQLConnection) { self.connection = connection }

  package var accounts: AccountTable { AccountTable(tables: self) }
  var accountTokens: AccountTokenTable { AccountTokenTable(tables: self) }
  package var changeEvents: ChangeEventTable { ChangeEventTable(tables: self) }
  var events: EventTable { EventTable(tables: self) }
  package var marks: MarkTable { MarkTable(tables: self) }
  package var otherStores: OtherStoreTable { OtherStoreTable(tables: self) }
  var outbox: OutboxTable { OutboxTable(tables: self) }
  var pastTransactions: PastTransactionTable { PastTransactionTable(tables: self) }
  package var progress: ProgressTable { ProgressTable(tables: self) }
  var proofs: ProofTable { ProofTable(tables: self) }
  var provisionalGrants: ProvisionalGrantTable { ProvisionalGrantTable(tables: self) }
  var pseudonyms: PseudonymTable { PseudonymTable(tables: self) }
  var purchases: PurchaseTable { PurchaseTable(tables: self) }
  var schedule: ScheduleTable { ScheduleTable(tables: self) }
  var thinnedHistory: ThinnedHistoryTable { ThinnedHistoryTable(tables: self) }

  package func statement(_ sql: SQL) throws -> any SQLStatement { try connection.statement(sql) }

  /// Inserts a row, whose number is the first value.
  /// - Parameter id: `nil` where the database numbers rows. SQLite's RETURNING would make a table for each answer.
  func insert<each Value: SQLValue>(_ id: Int64?, _ sql: SQL, _ values: repeat each Value) throws -> Int64 {
    try execute(sql, id, repeat each values)
    return id ?? connection.lastRow
  }

  /// The number of a row to be inserted, by its sequence. Where there are replicas, a number that is known before saves a round
  /// trip.
  func nextID(_ sql: SQL) throws -> Int64? { connection.isShared ? try first(sql) : nil }

  /// Rows that the last INSERT, UPDATE or DELETE changed.
  var changesCount: Int { connection.changes }

  /// Sends queries that are surely made soon together; in the body they have no rows.
  func readAhead(_ queries: () -> Void) { connection.readAhead(queries) }

  // MARK: The ledger itself

  func beat() throws {
    try execute("UPDATE heartbeat SET beats = beats + 1 WHERE id = 1")
    guard changesCount == 1 else { throw StoredForm.Unstorable() }
  }

  package func memo(_ name: String) throws -> String? {
    try first("SELECT text FROM memo WHERE name = ?", name)
  }

  package func keepMemo(_ name: String, _ text: String?) throws {
    guard let text else { return try execute("DELETE FROM memo WHERE name = ?", name) }
    try execute(
      "INSERT INTO memo (name, text) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET text = excluded.text", name, text)
  }

  /// Makes claimed and postponed work due: claims of an earlier process (the lock guarantees that it has ended), or
  /// delays set by a wrong clock.
  func release() throws {
    try execute("UPDATE outbox SET due_at = 0 WHERE due_at <> 0")
    try execute("UPDATE pending_receipt SET due_at = ? WHERE due_at <> ?", Self.longAgo, Self.longAgo)
    for table in ["consumption_request", "account_token_due", "renewal_extension"] {
      try execute(SQL("UPDATE \(table) SET claimed_until = NULL, due_at = ? WHERE due_at IS NOT NULL"), Self.longAgo)
    }
    try execute("UPDATE purchase SET due_at = scheduled_at WHERE attempts > 0 AND due_at <> scheduled_at")
    try execute("UPDATE run_item SET due_at = 0 WHERE due_at <> 0")
  }

  /// A moment of 1970 with as many bytes as one of today: a row that keeps its size is changed in place; any other is
  /// rewritten with its whole receipt.
  private static let longAgo: Int64 = 1 << 31
}

/// The statements about one subject that several operations share or that need a name.
package protocol LedgerTable: SQLRunner, Sendable {
  var tables: LedgerTables { get }
}

extension LedgerTable {
  package func statement(_ sql: SQL) throws -> any SQLStatement { try tables.statement(sql) }

  var connection: any SQLConnection { tables.connection }
  var changes: TransactionChanges { tables.changes }
  var changesCount: Int { tables.changesCount }

  func insert<each Value: SQLValue>(_ id: Int64?, _ sql: SQL, _ values: repeat each Value) throws -> Int64 {
    try tables.insert(id, sql, repeat each values)
  }
}
