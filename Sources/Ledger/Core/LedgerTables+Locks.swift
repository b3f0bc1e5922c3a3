extension LedgerTables {
  /// Takes a lock until the commit.
  /// - Returns: `false` while another replica has it.
  package func take(_ lock: AdvisoryLock) throws -> Bool {
    guard connection.isShared else { return true }
    return try exists("SELECT 1 WHERE pg_try_advisory_xact_lock(?)", lock.rawValue)
  }

  /// Waits for a lock, and takes it until the commit.
  func waitFor(_ lock: AdvisoryLock) throws {
    guard connection.isShared else { return }
    try execute("SELECT pg_advisory_xact_lock(?)", lock.rawValue)
  }
}

/// The advisory locks of a ledger in PostgreSQL, each for one thing, with numbers from "CSGN" on.
package enum AdvisoryLock: Int64 {
  /// Held by the session that migrates the database.
  case migration = 0x4353_474E
  /// The order of events for others.
  case events
  /// The counts of which one replica at a time does each.
  case purchases
  case exposures
  case limits
  /// Retention.
  case history
}
