package import Entitlements

/// Access that was given and not bought.
extension Ledger {
  /// Gives a user a period, and reevaluates the user. The user need not be known.
  package func give(_ giving: Giving) async throws(LedgerError) -> GivingOutcome {
    try await engine.submit { tables in try GivingOperation(giving: giving, tables: tables).run() }
  }

  /// Ends a period now, and reevaluates the user. It stays in the list of what was given.
  package func endGiven(
    _ id: GivenPeriod.ID, of user: UserID, note: Note, _ evaluationContext: EvaluationContext
  ) async throws(LedgerError) -> EndingOutcome {
    try await engine.submit { tables in
      try EndGivenOperation(evaluationContext: evaluationContext, tables: tables)
        .end(id, of: user, note: note)
    }
  }

  /// Records the verdicts of users whose periods are over.
  /// - Returns: how many periods ended.
  package func endOverdueGiven(_ evaluationContext: EvaluationContext) async throws(LedgerError) -> Int {
    // Usually there is nothing to end, and a write costs an fsync.
    let isIdle = try await read { tables in try !tables.hasGiven(endedAt: evaluationContext.evaluatedAt) }
    guard !isIdle else { return 0 }
    return try await engine.submit { tables in
      try EndGivenOperation(evaluationContext: evaluationContext, tables: tables).endOverdue(limit: 500)
    }
  }

  /// Everything that was ever given to a user, the newest first.
  package func given(to user: UserID, limit: Int) async throws(LedgerError) -> [GivenRecord] {
    try await read { tables in try tables.given(to: user, limit: limit) }
  }
}
