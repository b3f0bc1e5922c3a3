internal import GRDB
internal import GRDBSQLite

/// The statements of one connection, each compiled once and run by SQLite's own functions.
///
/// GRDB prepares each run for observers, cancellation and errors with the statement's text. None of these is needed
/// here, and they took several times as long as SQLite itself. Transactions are left to GRDB.
///
/// Use is limited to the owner of the connection: the GRDB thread on which it was lent. All statements must be released
/// before the connection is closed.
final class LedgerStatements: @unchecked Sendable {
  private final class Prepared {
    /// Owns the pointer, `sqlite3_stmt *`.
    let statement: Statement
    let columns: Columns
    var pointer: OpaquePointer { statement.sqliteStatement }

    init(_ statement: Statement) {
      self.statement = statement
      columns = Columns(
        (0..<sqlite3_column_count(statement.sqliteStatement)).map { index in
          sqlite3_column_name(statement.sqliteStatement, index).map { String(cString: $0) } ?? ""
        })
    }
  }

  /// The names of a statement's columns, with a cache of indexes by the address of the name in the program.
  fileprivate final class Columns {
    private let names: [String]
    private var known: [(place: UnsafePointer<UInt8>, index: Int)] = []

    init(_ names: [String]) { self.names = names }

    func index(of name: StaticString) throws -> Int {
      for one in known where one.place == name.utf8Start { return one.index }
      guard let index = names.firstIndex(of: name.description) else { throw StoredForm.Unstorable() }
      known.append((name.utf8Start, index))
      return index
    }
  }

  private let db: Database
  private var prepared: [LedgerSQL.Name: Prepared] = [:]

  init(_ db: Database) { self.db = db }

  /// Rows changed by the last statement.
  var changesCount: Int { db.changesCount }
  var lastInsertedRowID: Int64 { db.lastInsertedRowID }

  func execute(_ sql: LedgerSQL) throws { try run(sql) { _ in } }

  func rows(_ sql: LedgerSQL) throws -> [StoredRow] {
    var rows: [StoredRow] = []
    try run(sql) { rows.append(StoredRow($0.pointer, $0.columns)) }
    return rows
  }

  /// The first row.
  func row(_ sql: LedgerSQL) throws -> StoredRow? {
    var first: StoredRow?
    // Runs to the end: only then has a statement written everything.
    try run(sql) { statement in if first == nil { first = StoredRow(statement.pointer, statement.columns) } }
    return first
  }

  private func run(_ sql: LedgerSQL, _ take: (Prepared) -> Void) throws {
    let statement = try prepared(sql.name) { sql.text }
    let pointer = statement.pointer
    defer {
      // The step has already reported the same error.
      _ = sqlite3_reset(pointer)
      _ = sqlite3_clear_bindings(pointer)
    }
    for (index, value) in sql.values.enumerated() {
      try check(Self.bind(value, to: pointer, at: Int32(index + 1)))
    }
    while true {
      switch sqlite3_step(pointer) {
      case SQLITE_DONE: return
      case SQLITE_ROW: take(statement)
      case let code: throw DatabaseError(resultCode: ResultCode(rawValue: code))
      }
    }
  }

  private func prepared(_ name: LedgerSQL.Name, _ text: () -> String) throws -> Prepared {
    if let known = prepared[name] { return known }
    let new = Prepared(try db.cachedStatement(sql: text()))
    prepared[name] = new
    return new
  }

  private func check(_ code: Int32) throws {
    guard code == SQLITE_OK else { throw DatabaseError(resultCode: ResultCode(rawValue: code)) }
  }

  /// SQLite's `SQLITE_TRANSIENT`: it copies the value, so that nothing has to outlive the call.
  private static let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

  private static func bind(_ value: LedgerSQL.Value, to pointer: OpaquePointer, at index: Int32) -> Int32 {
    switch value {
    case .null: return sqlite3_bind_null(pointer, index)
    case .integer(let integer): return sqlite3_bind_int64(pointer, index, integer)
    case .text(var text):
      return text.withUTF8 { bytes in
        guard let start = bytes.baseAddress else { return sqlite3_bind_text(pointer, index, "", 0, copied) }
        return start.withMemoryRebound(to: CChar.self, capacity: bytes.count) {
          sqlite3_bind_text64(pointer, index, $0, sqlite3_uint64(bytes.count), copied, UInt8(SQLITE_UTF8))
        }
      }
    case .blob(let blob):
      return blob.withUnsafeBytes { bytes in
        guard let start = bytes.baseAddress, !bytes.isEmpty else { return sqlite3_bind_zeroblob(pointer, index, 0) }
        return sqlite3_bind_blob64(pointer, index, start, sqlite3_uint64(bytes.count), copied)
      }
    }
  }
}

/// A row, copied out of SQLite.
struct StoredRow {
  private let values: [LedgerSQL.Value]
  private let columns: LedgerStatements.Columns

  fileprivate init(_ pointer: OpaquePointer, _ columns: LedgerStatements.Columns) {
    self.columns = columns
    values = (0..<sqlite3_column_count(pointer)).map { index in
      switch sqlite3_column_type(pointer, index) {
      case SQLITE_INTEGER: .integer(sqlite3_column_int64(pointer, index))
      case SQLITE_TEXT:
        // The pointer comes first: the call may convert the value, which changes the count of bytes.
        if let text = sqlite3_column_text(pointer, index) {
          .text(
            String(
              decoding: UnsafeBufferPointer(start: text, count: Int(sqlite3_column_bytes(pointer, index))),
              as: UTF8.self
            ))
        } else {
          .null
        }
      case SQLITE_BLOB:
        if let bytes = sqlite3_column_blob(pointer, index) {
          .blob(Array(UnsafeRawBufferPointer(start: bytes, count: Int(sqlite3_column_bytes(pointer, index)))))
        } else {
          .blob([])
        }
      // The schema has no floating-point column.
      default: .null
      }
    }
  }

  /// - Throws: for an unknown column, and for a value of another type.
  func decode<Value: StoredValue>(_ type: Value.Type = Value.self, forColumn name: StaticString) throws -> Value {
    try decode(atIndex: try columns.index(of: name))
  }

  func decode<Value: StoredValue>(_ type: Value.Type = Value.self, atIndex index: Int) throws -> Value {
    guard values.indices.contains(index), let value = Value(values[index]) else { throw StoredForm.Unstorable() }
    return value
  }
}

/// A Swift type that a column can be decoded to.
protocol StoredValue {
  init?(_ value: LedgerSQL.Value)
}

extension Int64: StoredValue {
  init?(_ value: LedgerSQL.Value) {
    guard case .integer(let integer) = value else { return nil }
    self = integer
  }
}

extension Int: StoredValue {
  init?(_ value: LedgerSQL.Value) {
    guard let integer = Int64(value) else { return nil }
    self.init(exactly: integer)
  }
}

extension Bool: StoredValue {
  init?(_ value: LedgerSQL.Value) {
    guard let integer = Int64(value) else { return nil }
    self = integer != 0
  }
}

extension String: StoredValue {
  init?(_ value: LedgerSQL.Value) {
    guard case .text(let text) = value else { return nil }
    self = text
  }
}

extension [UInt8]: StoredValue {
  init?(_ value: LedgerSQL.Value) {
    guard case .blob(let bytes) = value else { return nil }
    self = bytes
  }
}

extension Optional: StoredValue where Wrapped: StoredValue {
  init?(_ value: LedgerSQL.Value) {
    if case .null = value {
      self = .none
      return
    }
    guard let wrapped = Wrapped(value) else { return nil }
    self = .some(wrapped)
  }
}
