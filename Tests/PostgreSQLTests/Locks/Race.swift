/// The fate of the second of two transactions that run the same statement at the same time.
struct Race: Hashable, Sendable {
  /// It stood still until the first had ended.
  var secondWaited: Bool
  var second: Outcome

  /// Plants the fault that no transaction waits for another's lock.
  static let withoutLock = """
    create or replace function countersign.wait_for_turn(what text, member uuid) returns void
      language plpgsql volatile as $$ begin end $$;
    """

  /// Runs the statement on one connection, then on another while the first's transaction is still open; commits the
  /// first once the second either waits for a lock or is through.
  static func run(
    _ sql: String, as caller: Caller, second other: Caller? = nil, in database: TestDatabase
  ) async throws -> Race {
    let first = try await database.api()
    let second = try await database.api()
    let observer = try await database.owner()
    try await first.begin(caller)
    try await first.query(sql)

    return try await withThrowingTaskGroup(of: Race?.self) { group in
      group.addTask { Race(secondWaited: false, second: try await second.attempt(sql, as: other ?? caller)) }
      group.addTask {
        // Ends when the statement waits for a lock or its transaction has ended; the pause is the server's.
        while true {
          let state = try await observer.query(
            """
            select wait_event_type, query = 'commit' or query = 'rollback', pg_sleep(0.002)
            from pg_stat_activity where pid = $1
            """, [second.processID]
          ).first
          if state?[0] == "Lock" {
            try await first.commit()
            return Race(secondWaited: true, second: .passed)
          }
          if state?[1] == "t" {
            try await first.commit()
            return nil
          }
        }
      }
      var waited = false
      var outcome = Outcome.passed
      for try await part in group {
        guard let part else { continue }
        if part.secondWaited { waited = true } else { outcome = part.second }
      }
      return Race(secondWaited: waited, second: outcome)
    }
  }
}
