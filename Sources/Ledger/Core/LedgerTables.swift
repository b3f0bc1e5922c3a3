internal import Entitlements
internal import struct FoundationEssentials.Date

/// The ledger's tables, with the statements that several operations share or that need a name. They run inside the caller's
/// transaction.
package struct LedgerTables: SQLRunner, Sendable {
  /// The connection is used by one thread at a time, the one on which it was lent.
  nonisolated(unsafe) let connection: any SQLConnection
  /// The cached reads that the open transaction invalidates.
  let changes = TransactionChanges()

  init(_ connection: any SQLConnection) { self.connection = connection }

  package func statement(_ sql: SQL) throws -> any SQLStatement { try connection.statement(sql) }

  /// Inserts a row, whose number is the first value.
  /// - Parameter id: `nil` where the database numbers rows. SQLite's RETURNING would make a table for each answer.
  func insert<each Value: SQLValue>(_ id: Int64?, _ sql: SQL, _ values: repeat each Value) throws -> Int64 {
    try execute(sql, id, repeat each values)
    return id ?? connection.lastRow
  }

  /// The number of a row to be inserted. Where there are replicas, a number that is known before saves a round trip.
  func nextEvent() throws -> Int64? { try next("SELECT nextval('event_sequence_seq')") }
  func nextPurchase() throws -> Int64? { try next("SELECT nextval('purchase_id_seq')") }
  func nextProof() throws -> Int64? { try next("SELECT nextval('proof_id_seq')") }

  private func next(_ sql: SQL) throws -> Int64? { connection.isShared ? try first(sql) : nil }

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
