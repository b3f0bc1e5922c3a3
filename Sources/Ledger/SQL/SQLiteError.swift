private import CSQLite

/// A call of SQLite's that failed.
struct SQLiteError: Error, Hashable, CustomStringConvertible {
  /// The extended result code: https://www.sqlite.org/rescode.html.
  var code: Int32

  /// The primary result codes that the ledger tells apart.
  enum Kind: Int32 {
    case permission = 3
    case abort = 4
    case busy = 5
    case locked = 6
    case noMemory = 7
    case readOnly = 8
    case interrupted = 9
    case inputOutput = 10
    case corrupt = 11
    case full = 13
    case cannotOpen = 14
    case lockingProtocol = 15
    case constraint = 19
    case misuse = 21
    case authorization = 23
    case notADatabase = 26
  }

  static let writeFailed: Int32 = 10 | 3 << 8
  static let memoryForFile: Int32 = 10 | 12 << 8
  static let sharedMemoryOpen: Int32 = 10 | 18 << 8
  static let sharedMemorySize: Int32 = 10 | 19 << 8
  static let sharedMemoryMap: Int32 = 10 | 21 << 8

  init(code: Int32) { self.code = code }
  init(_ kind: Kind) { code = kind.rawValue }

  var kind: Kind? { Kind(rawValue: code & 0xFF) }

  /// SQLite's text for the code, without values and SQL.
  var description: String { "SQLite \(code): \(String(cString: sqlite3_errstr(code)))" }
}
