internal import Ledger

extension LedgerTables {
  /// The number of purchases to be counted, up to a limit; the limit during a recount.
  func figuresDue(limit: Int) throws -> Int {
    guard try recount() == nil else { return limit }
    return try first("SELECT count(*) FROM (SELECT purchase_id FROM figure_due LIMIT ?) AS due", limit) {
      try $0.get(0)
    } ?? 0
  }

  /// The sums of the days, or of the months by their first days, in a range: by day, or by product. SQL adds up, so that few
  /// rows leave it; levels alone are half of the work.
  func figures(
    _ grain: FigureGrain, _ days: Range<Int>, _ grouping: FigureGrouping, of product: String? = nil
  ) throws -> [FigureKey: FigureCounts] {
    let (grain, first, end) = (grain.rawValue, days.lowerBound, days.upperBound)
    let rows =
      if product == nil, grouping == .levels {
        try all(
          """
          SELECT 0, product_id, currency, sum(active), sum(trials), sum(grace), sum(mrr),
            0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
          FROM figure WHERE grain = ? AND day >= ? AND day < ? AND product_id <> ? GROUP BY product_id, currency
          """, grain, first, end, Self.allProducts, read: Self.figures)
      } else if product != nil || grouping == .day {
        try all(
          """
          SELECT day, product_id, currency,
            active, trials, grace, mrr, new_subscriptions, new_mrr, ended, resubscribed, payments, refunded_payments,
            revenue, refunds, trial_starts, trial_conversions, trials_pending, existing, existing_mrr
          FROM figure WHERE grain = ? AND day >= ? AND day < ? AND product_id = ?
          """, grain, first, end, product ?? Self.allProducts, read: Self.figures)
      } else {
        try all(
          """
          SELECT 0, product_id, currency,
            sum(active), sum(trials), sum(grace), sum(mrr),
            sum(new_subscriptions), sum(new_mrr), sum(ended),
            sum(resubscribed), sum(payments), sum(refunded_payments),
            sum(revenue), sum(refunds), sum(trial_starts),
            sum(trial_conversions), sum(trials_pending), sum(existing), sum(existing_mrr)
          FROM figure WHERE grain = ? AND day >= ? AND day < ? AND product_id <> ? GROUP BY product_id, currency
          """, grain, first, end, Self.allProducts, read: Self.figures)
      }
    return Dictionary(rows) { one, _ in one }
  }

  private static func figures(_ row: SQLRow) throws -> (FigureKey, FigureCounts) {
    var counts = FigureCounts()
    for figure in Figure.allCases { counts[figure] = try row.get(3 + figure.rawValue) }
    return (FigureKey(day: try row.get(0), product: try row.get(1), currency: try row.get(2)), counts)
  }
}
