internal import Glibc

/// A ledger file that others than its owner may read or write. The ledger holds receipts, so nobody else should.
/// Restored backups are often exposed, and SQLite gives its companion files the same mode.
package struct LedgerExposure: Hashable, Sendable {
  package var path: String
  /// The permissions, as chmod(2) takes them.
  package var mode: UInt32
  /// Whether the permissions were taken away.
  package var isRepaired = false

  /// The permissions as chmod(1) takes them: `644`.
  package var modeText: String { String(mode, radix: 8) }
  /// Whether every user of the machine has some of the permissions.
  package var isToEverybody: Bool { mode & 0o007 != 0 }

  /// - Parameter path: the ledger's path, with symbolic links resolved.
  static func find(at path: String) -> [LedgerExposure] {
    ["", "-wal", "-shm"].compactMap { suffix in
      var status = stat()
      guard lstat(path + suffix, &status) == 0, status.st_mode & S_IFMT == S_IFREG else { return nil }
      let mode = status.st_mode & 0o7777
      return mode & 0o077 == 0 ? nil : LedgerExposure(path: path + suffix, mode: mode)
    }
  }

  /// Removes all permissions but the owner's; only the owner of the file can.
  ///
  /// The path is used, since closing a descriptor of the file would drop SQLite's locks on it.
  mutating func repair() { isRepaired = chmod(path, mode & 0o700) == 0 }
}
