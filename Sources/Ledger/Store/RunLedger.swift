package import struct FoundationEssentials.Date

/// Revalidation runs. Each subscription of a run is counted once, in the transaction that settles it, so the counts are
/// exact even after a crash.
package protocol RunLedger: Sendable {
  /// Starts a run, unless one is active: there is one at a time.
  ///
  /// - Parameter key: the caller's idempotency key; a repeated one returns the run that it started.
  func startRun(_ order: RunOrder, key: String?, at now: Date) async throws(LedgerError) -> RunStart

  /// The number of subscriptions that a run would take.
  func countDue(_ order: RunOrder, at now: Date) async throws(LedgerError) -> Int

  /// A run in its current state; `nil` for an unknown one, or one that ended long ago.
  func run(_ id: RunID) async throws(LedgerError) -> Run?

  /// The active run.
  func activeRun() async throws(LedgerError) -> Run?

  /// Claims subscriptions of a run. An unsettled one becomes due again at `lease`. A subscription that Apple has
  /// reported since the run began is settled as done, and not returned.
  func claimRunItems(
    of run: RunID, dueAt now: Date, until lease: Date, limit: Int
  ) async throws(LedgerError) -> RunClaim

  /// Settles a subscription for which `record` recorded nothing. A settled one is left unchanged.
  func settle(_ item: RunItem, _ outcome: RunOutcome) async throws(LedgerError)

  /// Postpones a subscription.
  /// - Parameter isCounted: the failure may concern this subscription; `false` for an outage.
  func retry(_ item: RunItem, at due: Date, isCounted: Bool) async throws(LedgerError)

  /// Returns claimed subscriptions that were not attempted.
  func giveBack(_ items: [RunItem]) async throws(LedgerError)

  /// Ends a run that has nothing left.
  /// - Returns: the run in its current state; `running` if something is left.
  func finishRun(_ id: RunID, at now: Date) async throws(LedgerError) -> Run?

  /// Ends a run with whatever is left of it.
  func stopRun(_ id: RunID, _ reason: RunStop, at now: Date) async throws(LedgerError) -> Run?
}
