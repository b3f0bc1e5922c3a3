private import Glibc

/// The effect of an error on the entry, on its transaction, and on the process.
struct LedgerFailure: Error, Hashable {
  enum Reach: Hashable {
    /// This entry cannot be written; others of the same transaction can.
    case entry
    /// No write is possible now.
    case transaction
    /// This process must not write any more.
    case process
  }

  var reach: Reach
  /// Constant text and the engines' codes only: no values, no SQL, no path.
  var sentence: String

  var error: LedgerError {
    switch reach {
    case .entry: .unusable(sentence)
    case .transaction: .unavailable(sentence)
    case .process: .failed(sentence)
    }
  }

  static let misplaced = LedgerFailure(
    reach: .process, sentence: "The ledger's file was removed or replaced while it was open")

  static let closed = LedgerFailure(reach: .transaction, sentence: "The ledger was closed")

  static let unknownOutcome = LedgerFailure(
    reach: .transaction, sentence: "The ledger's database went away while it committed")

  init(reach: Reach, sentence: String) {
    self.reach = reach
    self.sentence = sentence
  }

  /// - Parameter systemError: `errno` of the system call that SQLite reports as failed; zero if unknown.
  init(_ error: any Error, systemError: Int32 = 0) {
    switch error {
    case let failure as LedgerFailure: self = failure
    case let error as PostgreSQLError: self = Self.from(error)
    case let error as SQLiteError: self = Self.from(error, systemError: systemError)
    default: self.init(reach: .entry, sentence: "The ledger holds or was given a value that it cannot read or keep")
    }
  }

  /// Errors with which a system refuses a write completely. The disk is unchanged then, and writing works again when
  /// the cause is gone; a failed fsync or an interrupted write is different.
  private static let refusals: Set<Int32> = [EROFS, EPERM, EACCES, EDQUOT]

  private static func from(_ error: SQLiteError, systemError: Int32) -> LedgerFailure {
    let code = error.code
    switch error.kind {
    case .inputOutput:
      // Failures of the shared-memory index or of memory lose nothing: the index is rebuilt from the log.
      switch code {
      case SQLiteError.sharedMemorySize, SQLiteError.sharedMemoryOpen, SQLiteError.sharedMemoryMap,
        SQLiteError.memoryForFile:
        return .init(
          reach: .transaction, sentence: "The ledger's index has no room in memory or on the disk (SQLite \(code))")
      case SQLiteError.writeFailed where refusals.contains(systemError):
        return .init(
          reach: .transaction, sentence: "The system refuses to write the ledger (SQLite \(code), errno \(systemError))"
        )
      default:
        return .init(reach: .process, sentence: "The disk failed under the ledger (SQLite \(code))")
      }
    case .corrupt, .notADatabase:
      return .init(reach: .process, sentence: "The ledger's file is corrupt (SQLite \(code))")
    case .full:
      return .init(reach: .transaction, sentence: "The disk under the ledger is full (SQLite \(code))")
    case .readOnly:
      return .init(reach: .transaction, sentence: "The ledger's file cannot be written (SQLite \(code))")
    case .busy, .locked:
      return .init(reach: .transaction, sentence: "Another process holds the ledger locked (SQLite \(code))")
    case .cannotOpen, .permission, .authorization:
      return .init(reach: .transaction, sentence: "The ledger's file cannot be opened (SQLite \(code))")
    case .noMemory, .interrupted, .lockingProtocol, .abort:
      return .init(reach: .transaction, sentence: "The ledger's transaction could not go on (SQLite \(code))")
    default:
      return .init(reach: .entry, sentence: "The ledger refused a statement (SQLite \(code))")
    }
  }

  /// By the classes of "PostgreSQL Error Codes". No process has to end: another connection, or another server, may do. A key
  /// that somebody else took first, and a table or a right that is missing for now (class 42), concern no entry.
  private static func from(_ error: PostgreSQLError) -> LedgerFailure {
    let code = "PostgreSQL \(error.state)"
    switch error.state.prefix(2) {
    case "22",
      "23" where error.state != "23505":
      return .init(reach: .entry, sentence: "The ledger refused a statement (\(code))")
    case "08", "57": return .init(reach: .transaction, sentence: "The ledger's database cannot be reached (\(code))")
    case "53": return .init(reach: .transaction, sentence: "The ledger's database has no room left (\(code))")
    default: return .init(reach: .transaction, sentence: "The ledger's transaction could not go on (\(code))")
    }
  }
}
