internal import Glibc

/// A file of the ledger that others than its owner may read or write. It holds receipts, so nobody else should: a backup
/// that was restored is often one, and SQLite gives its companions the same mode.
package struct LedgerExposure: Hashable, Sendable {
  package var path: String
  /// The permissions, as chmod(2) takes them.
  package var mode: UInt32
  /// Whether the permissions were taken away.
  package var isMended = false

  /// As chmod(1) takes them: `644`.
  package var modeText: String { String(mode, radix: 8) }
  /// Whether every user of the machine has some of them.
  package var isToEverybody: Bool { mode & 0o007 != 0 }

  /// - Parameter path: the ledger's, with symbolic links resolved.
  static func find(at path: String) -> [LedgerExposure] {
    ["", "-wal", "-shm"].compactMap { suffix in
      var status = stat()
      guard lstat(path + suffix, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
      let mode = status.st_mode & 0o7777
      return mode & 0o077 == 0 ? nil : LedgerExposure(path: path + suffix, mode: mode)
    }
  }

  /// Takes the permissions of everybody but the owner away, which only the owner can.
  ///
  /// By its path: closing a descriptor of the file would drop SQLite's locks on it.
  mutating func mend() { isMended = chmod(path, mode & 0o700) == 0 }
}
