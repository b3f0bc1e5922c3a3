package import Access
package import Entitlements
package import Ledger

extension Ledger {
  /// Recounts the subscribers, and begins a recount of every purchase if the catalog's prices or the rules changed since the
  /// last one. `CountPurchases` continues it page by page, also after a restart.
  package func beginFigures(_ terms: [ProductID: Plans.Terms]) async throws(LedgerError) {
    try await run(BeginRecount(prices: PriceText(terms)))
    // The scan of all users must hold up no receipt, so it is a read. Its differences are still right a moment later.
    let recount = try await readLong(RecountSubscribers())
    try await run(CorrectSubscribers(recount: recount))
  }

  /// Counts the users in experiments who have new exposures, purchases or trials. Without any it writes nothing.
  /// - Returns: the number of users: see `CountExposures`.
  package func countExposures(_ terms: [ProductID: Plans.Terms], limit: Int) async throws(LedgerError) -> Int {
    try await readLong(ExposuresDue()) ? run(CountExposures(terms, limit: limit)) : 0
  }

  /// Counts the users near a limit whose tier has changed. Without any it writes nothing.
  /// - Returns: the number of users: see `CountLimits`.
  package func countLimits(_ features: [Feature], limit: Int) async throws(LedgerError) -> Int {
    try await readLong(LimitsDue()) ? run(CountLimits(features, limit: limit)) : 0
  }
}
