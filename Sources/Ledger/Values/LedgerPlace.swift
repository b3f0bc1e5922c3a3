/// Where a ledger is.
package enum LedgerPlace: Hashable, Sendable {
  /// A SQLite file of this process's own.
  case file(String)
  /// A PostgreSQL database, which replicas share.
  /// - url: a connection string of libpq's, which may hold a password.
  /// - connections: how many operations of this process run at a time.
  case database(url: String, connections: Int)

  /// Whether other processes may have it open.
  package var isShared: Bool {
    switch self {
    case .file: false
    case .database: true
    }
  }
}
