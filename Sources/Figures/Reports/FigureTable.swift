package import Ledger

/// Figures, and what they are counted from.
package struct FigureTable: LedgerTable {
  package let tables: LedgerTables

  /// The number of purchases to be counted, up to a limit; the limit during a recount.
  func figuresDue(limit: Int) throws -> Int {
    guard try recount() == nil else { return limit }
    return try first("SELECT count(*) FROM (SELECT purchase_id FROM figure_due LIMIT ?) AS due", limit) ?? 0
  }

  private static let figuresByDay = SQL(
    """
    SELECT day, product_id, currency, \(FigureCounts.columns.joined(separator: ", ")) FROM figure
    WHERE grain = ? AND day >= ? AND day < ? AND product_id = ?
    """)
  private static let figuresByProduct = sums { _ in true }
  private static let levelsByProduct = sums(of: \.isLevel)

  private static func sums(of isIncluded: (Figure) -> Bool) -> SQL {
    let sums = Figure.allCases.map { isIncluded($0) ? "sum(\(FigureCounts.columns[$0.rawValue]))" : "0" }
    return SQL(
      """
      SELECT 0, product_id, currency, \(sums.joined(separator: ", ")) FROM figure
      WHERE grain = ? AND day >= ? AND day < ? AND product_id <> ? GROUP BY product_id, currency
      """)
  }

  /// The sums of the days, or of the months by their first days, in a range: by day, or by product. SQL adds up, so that few
  /// rows leave it; levels alone are half of the work.
  func figures(
    _ grain: FigureGrain, _ days: Range<Int>, _ grouping: FigureGrouping, of product: String? = nil
  ) throws -> [FigureKey: FigureCounts] {
    let (grain, first, end) = (grain.rawValue, days.lowerBound, days.upperBound)
    let rows =
      if product != nil || grouping == .day {
        try all(Self.figuresByDay, grain, first, end, product ?? Self.allProducts, read: Self.figures)
      } else {
        try all(
          grouping == .levels ? Self.levelsByProduct : Self.figuresByProduct, grain, first, end, Self.allProducts,
          read: Self.figures)
      }
    return Dictionary(rows) { one, _ in one }
  }

  static func figures(_ row: SQLRow) throws -> (FigureKey, FigureCounts) {
    (FigureKey(day: try row.get(0), product: try row.get(1), currency: try row.get(2)), try row.get(3))
  }
}

extension LedgerTables { package var figures: FigureTable { FigureTable(tables: self) } }

extension FigureCounts: SQLValue {
  /// In the order of `Figure`.
  static let columns = [
    "active", "trials", "grace", "mrr", "new_subscriptions", "new_mrr", "ended", "resubscribed", "payments",
    "refunded_payments", "revenue", "refunds", "trial_starts", "trial_conversions", "trials_pending", "existing",
    "existing_mrr",
  ]

  package static var width: Int { columns.count }

  package func bind(to statement: any SQLStatement, at index: Int) throws {
    for figure in Figure.allCases { try statement.bind(self[figure], at: index + figure.rawValue) }
  }

  package init(_ statement: any SQLStatement, _ column: Int) throws {
    self.init()
    for figure in Figure.allCases { self[figure] = try statement.integer(column + figure.rawValue) }
  }
}
