internal import CSQLite

/// A compiled statement of a `SQLiteConnection`, for the same thread.
final class SQLiteStatement: SQLStatement {
  /// `sqlite3_stmt *`
  private let pointer: OpaquePointer
  /// The short values that are bound, until `reset`: SQLite would allocate memory for its copy of each.
  private let buffer = UnsafeMutableRawPointer.allocate(byteCount: capacity, alignment: 1)
  private var used = 0
  private static let capacity = 512

  /// Takes the statement over.
  init(_ pointer: OpaquePointer) { self.pointer = pointer }

  deinit {
    sqlite3_finalize(pointer)
    buffer.deallocate()
  }

  /// SQLite's `SQLITE_TRANSIENT`: it copies the value, so that nothing has to outlive the call.
  private static let copied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

  /// Copies a value into the buffer; where it does not fit, SQLite has to copy it.
  private func keep(_ bytes: UnsafeRawBufferPointer) -> (start: UnsafeRawPointer, release: sqlite3_destructor_type?) {
    if let start = bytes.baseAddress, bytes.count > Self.capacity - used { return (start, Self.copied) }
    let start = buffer + used
    if let source = bytes.baseAddress { start.copyMemory(from: source, byteCount: bytes.count) }
    used += bytes.count
    return (UnsafeRawPointer(start), nil)
  }

  func bindNull(at index: Int) throws { try check(sqlite3_bind_null(pointer, Int32(index + 1))) }

  func bind(_ value: Int64, at index: Int) throws { try check(sqlite3_bind_int64(pointer, Int32(index + 1), value)) }

  func bind(_ value: String, at index: Int) throws {
    var value = value.storable
    try check(
      value.withUTF8 { text in
        let (start, release) = keep(UnsafeRawBufferPointer(text))
        return start.withMemoryRebound(to: CChar.self, capacity: text.count) {
          sqlite3_bind_text64(pointer, Int32(index + 1), $0, sqlite3_uint64(text.count), release, UInt8(SQLITE_UTF8))
        }
      })
  }

  func bind(_ value: [UInt8], at index: Int) throws {
    try check(
      value.withUnsafeBytes { bytes in
        let (start, release) = keep(bytes)
        return sqlite3_bind_blob64(pointer, Int32(index + 1), start, sqlite3_uint64(bytes.count), release)
      })
  }

  func run() throws { while try step() {} }

  func step() throws -> Bool {
    switch sqlite3_step(pointer) {
    case SQLITE_ROW: true
    case SQLITE_DONE: false
    case let code: throw SQLiteError(code: code)
    }
  }

  func reset() {
    // The step has already reported the same error.
    _ = sqlite3_reset(pointer)
    _ = sqlite3_clear_bindings(pointer)
    used = 0
  }

  func isNull(_ column: Int) -> Bool { sqlite3_column_type(pointer, Int32(column)) == SQLITE_NULL }

  func integer(_ column: Int) throws -> Int64 {
    try expect(SQLITE_INTEGER, in: column)
    return sqlite3_column_int64(pointer, Int32(column))
  }

  func text(_ column: Int) throws -> String {
    try expect(SQLITE_TEXT, in: column)
    guard let text = sqlite3_column_text(pointer, Int32(column)) else { throw SQLiteError(.noMemory) }
    let count = Int(sqlite3_column_bytes(pointer, Int32(column)))
    return String(decoding: UnsafeBufferPointer(start: text, count: count), as: UTF8.self)
  }

  func blob(_ column: Int) throws -> [UInt8] {
    try expect(SQLITE_BLOB, in: column)
    // The pointer to an empty value is null.
    guard let bytes = sqlite3_column_blob(pointer, Int32(column)) else { return [] }
    let count = Int(sqlite3_column_bytes(pointer, Int32(column)))
    return Array(UnsafeRawBufferPointer(start: bytes, count: count))
  }

  private func expect(_ type: Int32, in column: Int) throws {
    guard sqlite3_column_type(pointer, Int32(column)) == type else { throw StoredForm.Unstorable() }
  }

  private func check(_ code: Int32) throws {
    guard code == SQLITE_OK else { throw SQLiteError(code: code) }
  }
}
