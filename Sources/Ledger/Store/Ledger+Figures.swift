package import Access
package import Entitlements

/// Figures about subscriptions: see `Figure`.
extension Ledger {
  /// The number of the rules by which purchases are counted: another one has every purchase counted anew.
  private static let figureRules = 2

  /// Counts the subscribers anew, and has every purchase counted anew if the prices of the catalog, or the rules, are not
  /// those of the last time.
  package func beginFigures(_ terms: [ProductID: Plans.Terms]) async throws(LedgerError) {
    let prices = terms.map { product, terms in
      "\(product): " + terms.prices.map { "\($0.value.text) \($0.key)" }.sorted().joined(separator: ", ")
    }.sorted().joined(separator: "; ")
    try await engine.submit { tables in
      try tables.noteAllFigures("\(Self.figureRules) prices " + prices)
      try tables.recountSubscribers()
    }
  }

  /// Counts what changed since it was counted.
  /// - Returns: how many purchases, or other changes; fewer than the limit when all are counted, or while another replica
  ///   counts.
  package func countFigures(_ terms: [ProductID: Plans.Terms], limit: Int) async throws(LedgerError) -> Int {
    try await engine.submit { tables in try tables.countFigures(terms, limit: limit) }
  }

  /// The figures of a span of days.
  package func figures(over span: FigureSpan) async throws(LedgerError) -> FigureReport {
    try await read { tables in
      FigureReport(
        series: try FigureSeries(span, pending: tables.figuresDue(limit: FigureSeries.pendingLimit)) { grain, days in
          try tables.figures(grain, days)
        }, subscribers: try tables.subscribers(), periods: try tables.productPeriods())
    }
  }

  /// The users of each tier and status, by their last verdicts.
  package func subscribers() async throws(LedgerError) -> [SubscriberCount] {
    try await readShort { tables in try tables.subscribers() }
  }
}
