package import struct FoundationEssentials.Date

/// Runs of re-validation. Each subscription of a run is counted once, in the transaction that settles it, so that the
/// counts are exact whenever the process ends.
package protocol RunLedger: Sendable {
  /// Starts a run, unless one is under way: there is one at a time.
  ///
  /// - Parameter key: the caller's name for this wish; a repeated one is answered with the run that it started.
  func startRun(_ order: RunOrder, key: String?, at now: Date) async throws(LedgerError) -> RunStart

  /// How many subscriptions a run would take.
  func countDue(_ order: RunOrder, at now: Date) async throws(LedgerError) -> Int

  /// A run as it stands; `nil` for one that never was, or that has long ended.
  func run(_ id: RunID) async throws(LedgerError) -> Run?

  /// The run that is under way.
  func activeRun() async throws(LedgerError) -> Run?

  /// Claims subscriptions of a run. They are due again at `lease` if nothing comes of them. One of which Apple has told
  /// since the run began is settled as done, and not handed out.
  func claimRunItems(
    of run: RunID, dueAt now: Date, until lease: Date, limit: Int
  ) async throws(LedgerError) -> RunClaim

  /// Settles a subscription for which `record` recorded nothing. One that is settled already stays as it is.
  func settle(_ item: RunItem, _ outcome: RunOutcome) async throws(LedgerError)

  /// Puts a subscription off.
  /// - Parameter isCounted: the trouble may be with this one; not an outage.
  func retry(_ item: RunItem, at due: Date, isCounted: Bool) async throws(LedgerError)

  /// Gives claimed subscriptions back that nobody asked about.
  func giveBack(_ items: [RunItem]) async throws(LedgerError)

  /// Ends a run of which nothing is left.
  /// - Returns: the run as it stands; `running` where something is left.
  func finishRun(_ id: RunID, at now: Date) async throws(LedgerError) -> Run?

  /// Ends a run whatever is left of it.
  func stopRun(_ id: RunID, _ reason: RunStop, at now: Date) async throws(LedgerError) -> Run?
}
