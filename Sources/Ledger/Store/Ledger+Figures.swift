package import Access
package import Entitlements

/// Figures about subscriptions: see `Figure`.
extension Ledger {
  /// Has every purchase counted anew if the prices of the catalog are not those of the last time.
  package func beginFigures(_ terms: [ProductID: Plans.Terms]) async throws(LedgerError) {
    let prices = terms.map { product, terms in
      "\(product): " + terms.prices.map { "\($0.value.text) \($0.key)" }.sorted().joined(separator: ", ")
    }.sorted().joined(separator: "; ")
    try await engine.submit { tables in try tables.noteAllFigures("prices " + prices) }
  }

  /// Counts purchases that changed since they were counted.
  /// - Returns: how many; fewer than the limit when all are counted, or while another replica counts.
  package func countFigures(_ terms: [ProductID: Plans.Terms], limit: Int) async throws(LedgerError) -> Int {
    try await engine.submit { tables in try tables.countFigures(terms, limit: limit) }
  }

  /// The sums of a span of days, with what is needed to tell the levels of each.
  package func figures(over span: FigureSpan) async throws(LedgerError) -> FigureSeries {
    try await read { tables in
      try FigureSeries(span, pending: tables.figuresDue(limit: FigureSeries.pendingLimit)) { grain, days in
        try tables.figures(grain, days)
      }
    }
  }
}
