internal import CSQLite

/// A SQLite file, which a test reads or damages without the ledger's own code.
package final class SQLiteFile {
  package enum Value: Hashable, Sendable {
    case null
    case integer(Int64)
    case real(Double)
    case text(String)
    case blob([UInt8])
  }

  package struct Failure: Error {
    /// The extended result code.
    package var code: Int32
    /// SQLite's text, which names tables and constraints.
    package var message: String

    package var isConstraint: Bool { code & 0xFF == SQLITE_CONSTRAINT }
    package var isDamage: Bool { [SQLITE_CORRUPT, SQLITE_NOTADB].contains(code & 0xFF) }
  }

  package struct Row: Hashable, Sendable {
    package var columns: [String]
    package var values: [Value]

    /// The value of the first column with a name. A missing column, or a value of another type, ends the test's process.
    package subscript<Result: SQLiteFileValue>(_ column: String) -> Result {
      guard let index = columns.firstIndex(of: column), let value = Result(values[index]) else {
        preconditionFailure("There is no \(Result.self) \(column) in \(self)")
      }
      return value
    }
  }

  private var connection: OpaquePointer?

  /// Opens a file, and creates it where it may be written.
  package init(_ path: String, isReadOnly: Bool = false) throws {
    let access = isReadOnly ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
    try check(sqlite3_open_v2(path, &connection, access | SQLITE_OPEN_EXRESCODE, nil))
    try check(csqlite_refuse_quoted_values(connection))
    try run("PRAGMA foreign_keys = ON")
  }

  deinit { close() }

  package func close() {
    sqlite3_close_v2(connection)
    connection = nil
  }

  /// Runs statements, each with the same values for its question marks.
  package func run(_ sql: String, _ values: [Value] = []) throws { _ = try rows(sql, values) }

  /// Runs statements in a transaction that is rolled back after an error.
  package func transaction(_ body: () throws -> Void) throws {
    try run("BEGIN IMMEDIATE")
    do {
      try body()
      try run("COMMIT")
    } catch {
      try? run("ROLLBACK")
      throw error
    }
  }

  /// The rows of statements that are run once.
  package func rows(_ sql: String, _ values: [Value] = []) throws -> [Row] {
    var rows: [Row] = []
    try sql.withCString { text in
      var next: UnsafePointer<CChar>? = text
      while let start = next, start.pointee != 0 {
        var statement: OpaquePointer?
        try check(sqlite3_prepare_v2(connection, start, -1, &statement, &next))
        guard let statement else { continue }
        defer { sqlite3_finalize(statement) }
        for (index, value) in values.enumerated() { try bind(value, at: Int32(index + 1), of: statement) }
        while true {
          let code = sqlite3_step(statement)
          guard code == SQLITE_ROW else {
            if code != SQLITE_DONE { try check(code) }
            break
          }
          rows.append(Self.row(of: statement))
        }
      }
    }
    return rows
  }

  /// The first column of every row.
  package func all<Result: SQLiteFileValue>(_ sql: String, as type: Result.Type = Result.self) throws -> [Result] {
    try rows(sql).map { $0[$0.columns[0]] }
  }

  /// The first column of the first row; `nil` without a row, and for NULL.
  package func first<Result: SQLiteFileValue>(_ sql: String, as type: Result.Type = Result.self) throws -> Result? {
    try all(sql, as: Result?.self).first ?? nil
  }

  /// Pages that transactions wrote to the log before they committed.
  package var spilledPages: Int {
    var (count, highest): (Int32, Int32) = (0, 0)
    sqlite3_db_status(connection, SQLITE_DBSTATUS_CACHE_SPILL, &count, &highest, 0)
    return Int(count)
  }

  private static func row(of statement: OpaquePointer) -> Row {
    var row = Row(columns: [], values: [])
    for column in 0..<sqlite3_column_count(statement) {
      row.columns.append(String(cString: sqlite3_column_name(statement, column)))
      // The value's address comes before its length, which depends on it.
      switch sqlite3_column_type(statement, column) {
      case SQLITE_INTEGER: row.values.append(.integer(sqlite3_column_int64(statement, column)))
      case SQLITE_FLOAT: row.values.append(.real(sqlite3_column_double(statement, column)))
      case SQLITE_TEXT:
        let start = sqlite3_column_text(statement, column)
        let bytes = UnsafeBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))
        row.values.append(.text(String(decoding: bytes, as: UTF8.self)))
      case SQLITE_BLOB:
        let start = sqlite3_column_blob(statement, column)
        let bytes = UnsafeRawBufferPointer(start: start, count: Int(sqlite3_column_bytes(statement, column)))
        row.values.append(.blob(Array(bytes)))
      default: row.values.append(.null)
      }
    }
    return row
  }

  private func bind(_ value: Value, at index: Int32, of statement: OpaquePointer) throws {
    let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
    switch value {
    case .null: try check(sqlite3_bind_null(statement, index))
    case .integer(let integer): try check(sqlite3_bind_int64(statement, index, integer))
    case .real(let real): try check(sqlite3_bind_double(statement, index, real))
    case .text(let text): try check(sqlite3_bind_text(statement, index, text, -1, copied))
    case .blob(let bytes): try check(sqlite3_bind_blob(statement, index, bytes, Int32(bytes.count), copied))
    }
  }

  private func check(_ code: Int32) throws {
    guard code != SQLITE_OK else { return }
    throw Failure(code: code, message: String(cString: sqlite3_errmsg(connection)))
  }
}

/// A Swift type that a test reads as a value.
package protocol SQLiteFileValue {
  /// - Returns: `nil` for a value of another type.
  init?(_ value: SQLiteFile.Value)
}

extension Int64: SQLiteFileValue {
  package init?(_ value: SQLiteFile.Value) {
    guard case .integer(let integer) = value else { return nil }
    self = integer
  }
}

extension Int: SQLiteFileValue {
  package init?(_ value: SQLiteFile.Value) {
    guard case .integer(let integer) = value else { return nil }
    self.init(exactly: integer)
  }
}

extension Bool: SQLiteFileValue {
  package init?(_ value: SQLiteFile.Value) {
    guard case .integer(let integer) = value else { return nil }
    self = integer != 0
  }
}

extension String: SQLiteFileValue {
  package init?(_ value: SQLiteFile.Value) {
    guard case .text(let text) = value else { return nil }
    self = text
  }
}

extension Optional: SQLiteFileValue where Wrapped: SQLiteFileValue {
  package init?(_ value: SQLiteFile.Value) {
    guard value != .null else {
      self = .none
      return
    }
    guard let wrapped = Wrapped(value) else { return nil }
    self = wrapped
  }
}
