/// The processes that have one ledger open.
extension Ledger {
  /// Whether other processes may have this ledger open, too.
  package var isShared: Bool { engine.isShared }

  /// Says that this process lives.
  ///
  /// - Parameters:
  ///   - replica: the process's own word for itself; a new one at each start.
  ///   - name: what an operator calls it.
  /// - Returns: how many processes live, this one included: those that said so within fifteen seconds by the database's
  ///   clock.
  package func beat(replica: String, name: String) async throws(LedgerError) -> Int {
    guard engine.isShared else { return 1 }
    return try await engine.submit { tables in try tables.beat(replica: replica, name: name) }
  }

  /// The number of processes that live.
  package func replicas() async throws(LedgerError) -> Int {
    guard engine.isShared else { return 1 }
    return try await engine.read { tables in try tables.replicasAlive() }
  }

  /// Takes leave, so that the others need not wait for this process.
  package func leave(replica: String) async throws(LedgerError) {
    guard engine.isShared else { return }
    try await engine.submit { tables in try tables.execute("DELETE FROM replica WHERE id = ?", replica) }
  }
}

extension LedgerTables {
  func beat(replica: String, name: String) throws -> Int {
    try execute(
      """
      INSERT INTO replica (id, name, started_at, beat_at)
      VALUES (?, ?, extract(epoch FROM now())::bigint * 1000, now())
      ON CONFLICT (id) DO UPDATE SET beat_at = now()
      """, replica, name)
    try execute("DELETE FROM replica WHERE beat_at < now() - interval '1 minute'")
    return try replicasAlive()
  }

  func replicasAlive() throws -> Int {
    try first("SELECT count(*) FROM replica WHERE beat_at > now() - interval '15 seconds'") ?? 0
  }
}
