package import Access
package import Entitlements
package import Ledger

extension Ledger {
  /// Recounts the subscribers, and begins a recount of every purchase if the catalog's prices or the rules changed since the
  /// last one. `countPurchases` continues it, also after a restart.
  package func beginFigures(_ terms: [ProductID: Plans.Terms]) async throws(LedgerError) {
    try await run(BeginRecount(prices: PriceText(terms)))
    // The scan of all users must hold up no receipt, so it is a read. Its differences are still right a moment later.
    let correction = try await readLong(RecountSubscribers())
    try await run(correction)
  }

  /// Counts the purchases that changed: first all of them, if a recount is under way, unless the task is cancelled.
  /// - Returns: the number of purchases: see `CountPurchases`.
  package func countPurchases(_ terms: [ProductID: Plans.Terms], limit: Int) async throws(LedgerError) -> Int {
    while let recount = try await readLong(ReadRecount()) {
      guard !Task.isCancelled, try await goOn(recount, terms) else { return 0 }
    }
    return try await run(CountPurchases(terms, limit: limit))
  }

  /// Goes on with a recount: with the purchases, or with the sums. They are read beside the writer, each page while the one
  /// before is written.
  /// - Parameters:
  ///   - limit: the most purchases of a page.
  ///   - time: how long a write may take.
  /// - Returns: `false` where another replica goes on, or another recount began.
  func goOn(
    _ recount: Recount, _ terms: [ProductID: Plans.Terms], page limit: Int = 500, time: Duration = CountPurchases.time
  ) async throws(LedgerError) -> Bool {
    switch recount {
    case .purchases(let after): try await recountPurchases(after, terms, limit, time)
    case .sums: try await recountSums(PriceText(terms), limit * 10, time)
    }
  }

  private func recountPurchases(
    _ after: Int64, _ terms: [ProductID: Plans.Terms], _ limit: Int, _ time: Duration
  ) async throws(LedgerError) -> Bool {
    let prices = PriceText(terms)
    var page = try await readLong(ReadRecountPage(after: after, terms: terms, limit: limit))
    while let end = page.end, !Task.isCancelled {
      async let next = readAhead(ReadRecountPage(after: end, terms: terms, limit: limit))
      guard let kept = try await run(KeepRecountPage(page: page, prices: prices, time: time)) else { return false }
      guard kept == .purchases(after: end) else { return true }
      page = try await next.get()
    }
    return try await run(KeepRecountPage(page: page, prices: prices, time: time)) != nil
  }

  private func recountSums(_ prices: PriceText, _ limit: Int, _ time: Duration) async throws(LedgerError) -> Bool {
    var sums = CountSums()
    var page = try await readLong(ReadCountSums(after: .min, limit: limit))
    while let last = page.last {
      async let next = readAhead(ReadCountSums(after: last, limit: limit))
      sums.add(page.sums)
      page = try await next.get()
    }
    var rows = try await readLong(ReadSumRows(sums: sums))[...]
    repeat {
      guard let kept = try await run(KeepSums(rows: rows, prices: prices, time: time)) else { return false }
      rows = rows.dropFirst(kept)
    } while !rows.isEmpty
    return true
  }

  private func readAhead<Operation: LedgerOperation>(
    _ operation: Operation
  ) async -> Result<Operation.Outcome, LedgerError> {
    do throws(LedgerError) { return .success(try await readLong(operation)) } catch { return .failure(error) }
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
