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
