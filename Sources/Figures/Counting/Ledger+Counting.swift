package import Access
package import Entitlements
package import Ledger

extension Ledger {
  /// Counts the subscribers anew, and begins to have every purchase counted anew if the prices of the catalog, or the rules,
  /// are not those of the last time. `CountPurchases` goes on with that page by page, also after a restart.
  package func beginFigures(_ terms: [ProductID: Plans.Terms]) async throws(LedgerError) {
    try await run(BeginRecount(prices: PriceText(terms)))
    // All users are read at once, which must hold up no receipt; what is wrong then is wrong by as much a moment later.
    let recount = try await readLong(RecountSubscribers())
    try await run(CorrectSubscribers(recount: recount))
  }

  /// Counts users whose exposures, purchases or trials changed since they were counted.
  /// - Returns: how many; fewer than the limit when all are counted, while another replica counts, or where one with other
  ///   prices or rules began after this one.
  package func countExposures(_ terms: [ProductID: Plans.Terms], limit: Int) async throws(LedgerError) -> Int {
    let isIdle = try await readLong(ExposuresDue(limit: 1)) == 0
    return isIdle ? 0 : try await run(CountExposures(terms, limit: limit))
  }
}
