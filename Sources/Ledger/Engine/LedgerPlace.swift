/// Where a ledger is.
package enum LedgerPlace: Hashable, Sendable {
  /// A SQLite file of this process's own.
  case file(String)
  /// A PostgreSQL database, which replicas share.
  /// - url: a connection string of libpq's, which may hold a password.
  /// - connections: how many operations of this process run at a time.
  case database(url: String, connections: Int)

  /// The free part, from 0 to 1, of the disk that a ledger's file is on, for this process's user; `nil` for a database, and
  /// where it is not known.
  package var freeShareOfDisk: Double? {
    guard case .file(let path) = self, let space = DiskSpace(of: path) else { return nil }
    return Double(space.free) / Double(space.total)
  }
}
