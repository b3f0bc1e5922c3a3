package import struct FoundationEssentials.Date

/// Revalidation runs. Each subscription of a run is counted once, in the transaction that settles it, so the counts are
/// exact even after a crash.
extension Ledger {
  /// Starts a run, unless one is active: there is one at a time.
  ///
  /// - Parameter key: the caller's idempotency key; a repeated one returns the run that it started.
  package func startRun(_ order: RunOrder, key: String?, at now: Date) async throws(LedgerError) -> RunStart {
    try await engine.submit { tables in try tables.runs.start(order, key: key, at: now) }
  }

  /// The number of subscriptions that a run would take.
  package func countDue(_ order: RunOrder, at now: Date) async throws(LedgerError) -> Int {
    try await read { tables in try tables.runs.countDue(order, at: now) }
  }

  /// A run in its current state; `nil` for an unknown one, or one that ended long ago.
  package func run(_ id: RunID) async throws(LedgerError) -> Run? {
    try await read { tables in try tables.runs.run(id) }
  }

  /// The last runs, the newest first.
  package func runs(limit: Int) async throws(LedgerError) -> [Run] {
    try await read { tables in
      try tables.all("SELECT id FROM run ORDER BY id DESC LIMIT ?", max(0, limit)) { RunID(try $0.get(0)) }
        .compactMap(tables.runs.run)
    }
  }

  /// The active run.
  package func activeRun() async throws(LedgerError) -> Run? {
    try await read { tables in try tables.runs.active() }
  }

  /// Claims subscriptions of a run. An unsettled one becomes due again at `lease`. A subscription that Apple has
  /// reported since the run began is settled as done, and not returned; one that cannot be read, as failed.
  package func claimRunItems(
    of run: RunID, dueAt now: Date, until lease: Date, limit: Int
  ) async throws(LedgerError) -> RunClaim {
    guard try await read({ try $0.runs.hasItems(of: run, dueAt: now) }) else {
      return RunClaim(items: [], isExhausted: true)
    }
    return try await engine.submit { try $0.runs.claimItems(of: run, dueAt: now, until: lease, limit: limit) }
  }

  /// Settles a subscription for which `record` recorded nothing. A settled one is left unchanged.
  package func settle(_ item: RunItem, _ outcome: RunOutcome) async throws(LedgerError) {
    try await engine.submit { tables in try tables.runs.settleItem(item.id, of: item.run, outcome) }
  }

  /// Postpones a subscription.
  /// - Parameter isCounted: the failure may concern this subscription; `false` for an outage.
  package func retry(_ item: RunItem, at due: Date, isCounted: Bool) async throws(LedgerError) {
    try await engine.submit { tables in try tables.runs.retry(item, at: due, isCounted: isCounted) }
  }

  /// Returns claimed subscriptions that were not attempted.
  package func giveBack(_ items: [RunItem]) async throws(LedgerError) {
    guard !items.isEmpty else { return }
    try await engine.submit { tables in try tables.runs.giveBack(items) }
  }

  /// Ends a run that has nothing left.
  /// - Returns: the run in its current state; `running` if something is left.
  package func finishRun(_ id: RunID, at now: Date) async throws(LedgerError) -> Run? {
    try await engine.submit { tables in try tables.runs.finish(id, at: now) }
  }

  /// Ends a run with whatever is left of it.
  package func stopRun(_ id: RunID, _ reason: RunStop, at now: Date) async throws(LedgerError) -> Run? {
    try await engine.submit { tables in try tables.runs.stop(id, reason, at: now) }
  }
}
