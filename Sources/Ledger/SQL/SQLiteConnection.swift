internal import CSQLite
internal import Synchronization

/// A connection to a SQLite file, with its prepared statements. Its calls block; one thread uses it at a time.
///
/// Each call that fails throws a `SQLiteError`; on a closed connection, one of misuse.
final class SQLiteConnection: SQLConnection, @unchecked Sendable {
  /// `sqlite3 *`; `nil` once closed.
  private var pointer: OpaquePointer?
  /// By the address of the text in the program.
  private var statements: [UnsafePointer<UInt8>: SQLiteStatement] = [:]
  /// Held while the connection is closed, and while another thread interrupts it.
  private let ending = Mutex(())
  /// Pages of the log after the last commit, after `countLog`.
  private(set) var logPages = 0

  /// Opens a file, which is created where it may be written.
  /// - Parameters:
  ///   - path: of the file; `:memory:` is a database of this connection's own.
  ///   - patience: the longest that a statement waits for a lock of another connection.
  init(path: String, isReadOnly: Bool = false, patience: Duration = .zero) throws {
    let access = isReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
    // Without SQLite's own lock, as one thread uses it at a time.
    try check(sqlite3_open_v2(path, &pointer, access | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nil))
    try check(sqlite3_busy_timeout(pointer, Int32(patience / .milliseconds(1))))
    try check(csqlite_refuse_quoted_values(pointer))
    try run("PRAGMA foreign_keys = ON")
  }

  deinit { close() }

  /// Ends the connection, and forgets its statements. Further calls do nothing.
  func close() {
    statements = [:]
    ending.withLock { _ in
      // A statement that is still held keeps SQLite's own part of the connection until it is released.
      sqlite3_close_v2(pointer)
      pointer = nil
    }
  }

  /// Ends the running statement with `interrupted`. Any thread may call it.
  func interrupt() {
    ending.withLock { _ in if let pointer { sqlite3_interrupt(pointer) } }
  }

  /// `sqlite3 *`
  var handle: OpaquePointer {
    get throws {
      guard let pointer else { throw SQLiteError(.misuse) }
      return pointer
    }
  }

  private func check(_ code: Int32) throws {
    guard code == SQLITE_OK else { throw SQLiteError(code: code) }
  }

  // MARK: Statements

  var isShared: Bool { false }
  var changes: Int { pointer.map { Int(sqlite3_changes($0)) } ?? 0 }
  var lastRow: Int64 { pointer.map { sqlite3_last_insert_rowid($0) } ?? 0 }
  func readAhead(_ queries: () -> Void) {}

  func statement(_ sql: SQL) throws -> any SQLStatement {
    if let known = statements[sql.start] { return known }
    let new = try prepare(sql.text, isKept: true)
    statements[sql.start] = new
    return new
  }

  /// - Parameter isKept: SQLite takes the memory of such a statement elsewhere, and not from the few places (lookaside)
  ///   that it has for the needs of a moment.
  private func prepare(_ sql: String, isKept: Bool) throws -> SQLiteStatement {
    var statement: OpaquePointer?
    try check(sqlite3_prepare_v3(handle, sql, -1, isKept ? UInt32(SQLITE_PREPARE_PERSISTENT) : 0, &statement, nil))
    // A text without a statement.
    guard let statement else { throw SQLiteError(.misuse) }
    return SQLiteStatement(statement)
  }

  /// Runs statements without values; their rows are not wanted.
  func run(_ sql: String) throws { try check(sqlite3_exec(handle, sql, nil, nil, nil)) }

  /// Every row of a statement that is run once.
  func rows<Result>(of sql: String, read: (SQLRow) throws -> Result) throws -> [Result] {
    let statement = try prepare(sql, isKept: false)
    var results: [Result] = []
    while try statement.step() { results.append(try read(SQLRow(statement: statement))) }
    return results
  }

  /// The first column of the first row.
  func value<Value: SQLValue>(of sql: String, as type: Value.Type = Value.self) throws -> Value? {
    try rows(of: sql) { try $0.get(0, as: type) }.first
  }

  func hasTable(_ name: String) throws -> Bool {
    try exists("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?", name)
  }

  // MARK: Transactions

  var isInTransaction: Bool { pointer.map { sqlite3_get_autocommit($0) == 0 } ?? false }

  /// Runs a body in a transaction that holds the lock for writing from its beginning.
  func write<Result>(_ body: () throws -> Result) throws -> Result { try transaction("BEGIN IMMEDIATE", body) }

  /// Runs a body on one snapshot.
  func read<Result>(_ body: () throws -> Result) throws -> Result { try transaction("BEGIN", body) }

  private func transaction<Result>(_ begin: String, _ body: () throws -> Result) throws -> Result {
    try run(begin)
    do {
      let result = try body()
      try run("COMMIT")
      return result
    } catch {
      try? rollBack()
      throw error
    }
  }

  /// Rolls the transaction back, if one is open. After an error it stays open.
  func rollBack() throws { if isInTransaction { try run("ROLLBACK") } }

  // MARK: The log, and copies

  /// Counts the log's pages, in the place of the hook by which SQLite copies a long log within a COMMIT.
  func countLog() {
    guard let pointer else { return }
    _ = sqlite3_wal_hook(
      pointer,
      { context, _, _, pages in
        guard let context else { return SQLITE_OK }
        Unmanaged<SQLiteConnection>.fromOpaque(context).takeUnretainedValue().logPages = Int(pages)
        return SQLITE_OK
      }, Unmanaged.passUnretained(self).toOpaque())
  }

  /// Leaves the log as it is when the connection is closed, even as the last one.
  func keepLog() throws { try check(csqlite_keep_log(handle)) }

  /// Copies the log into the file and syncs it, as far as no reader is in the way; to empty it, after the last of them.
  func copyLog(emptying: Bool = false) throws {
    let mode = emptying ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE
    try check(sqlite3_wal_checkpoint_v2(handle, "main", mode, nil, nil))
  }

  /// Copies every page in one step, as SQLite restarts a copy when a page is written between two.
  func copyPages(to target: SQLiteConnection) throws {
    guard let backup = try sqlite3_backup_init(target.handle, "main", handle, "main") else {
      throw SQLiteError(code: sqlite3_extended_errcode(try target.handle))
    }
    let code = sqlite3_backup_step(backup, -1)
    let end = sqlite3_backup_finish(backup)
    guard code == SQLITE_DONE else { throw SQLiteError(code: code) }
    try check(end)
  }

  // MARK: Errors of the system

  /// `errno` of the last failed call. SQLite does not update it when a COMMIT fails.
  var systemError: Int32 { pointer.map { sqlite3_system_errno($0) } ?? 0 }

  /// `errno` of the last failed call on the log, within a COMMIT as well.
  var logError: Int32 {
    var log: UnsafeMutablePointer<sqlite3_file>?
    var number: Int32 = 0
    guard let pointer, sqlite3_file_control(pointer, "main", SQLITE_FCNTL_JOURNAL_POINTER, &log) == SQLITE_OK,
      let log, let control = log.pointee.pMethods?.pointee.xFileControl,
      control(log, SQLITE_FCNTL_LAST_ERRNO, &number) == SQLITE_OK
    else { return 0 }
    return number
  }
}
