/// Why a ledger cannot be opened. Each `description` is a sentence that tells an operator what to do.
package enum LedgerOpenError: Error, Hashable, Sendable, CustomStringConvertible {
  /// The file, its directory or its lock cannot be created, read or written.
  case inaccessible(path: String, problem: String)
  /// Another process has the ledger open.
  case inUse(path: String)
  /// The file has another format; it was not changed.
  case notALedger(path: String)
  /// A newer version of the service wrote the ledger.
  case newerSchema(path: String)
  /// SQLite refuses the settings that durability requires.
  case notDurable(path: String, problem: String)
  /// SQLite found damage.
  case damaged(path: String, problem: String)
  /// The disk failed. The data on it may be intact.
  case diskFailed(path: String, problem: String)

  package var description: String {
    switch self {
    case .inaccessible(let path, let problem):
      "The ledger \(path) cannot be opened: \(problem)."
    case .inUse(let path):
      """
      The ledger \(path) is in use by another process. Only one may write to it: stop the other one, or set another \
      ledger.path.
      """
    case .notALedger(let path):
      """
      The file \(path) is not a Countersign ledger. It was not touched. Set ledger.path to the ledger, or to a file \
      that does not exist yet.
      """
    case .newerSchema(let path):
      """
      The ledger \(path) was written by a newer version of Countersign. Run that version, or restore a backup made \
      before the upgrade.
      """
    case .notDurable(let path, let problem):
      "The ledger \(path) cannot be kept safe from a power cut: \(problem). Put it on a local file system."
    case .damaged(let path, let problem):
      "The ledger \(path) cannot be trusted: \(problem). Check the disk, then restore a backup."
    case .diskFailed(let path, let problem):
      """
      The ledger \(path) could not be read or written: \(problem). Check the disk, then start again; restore a backup only \
      if the ledger is then said to be corrupt.
      """
    }
  }
}
