internal import Ledger

extension LedgerTables {
  func add(_ changes: [FigureCohort.Key: Int64]) throws {
    var sums = changes
    for (key, change) in changes {
      sums[FigureCohort.Key(month: key.month, product: Self.allProducts, since: key.since), default: 0] += change
    }
    for (key, change) in sums.sorted(by: { $0.key < $1.key }) where change != 0 {
      try execute(
        """
        INSERT INTO figure_cohort (month, product_id, since, change) VALUES (?, ?, ?, ?)
        ON CONFLICT (month, product_id, since) DO UPDATE SET change = figure_cohort.change + excluded.change
        """, key.month, key.product, key.since, change)
    }
  }

  /// The changes of the cohorts of some months: of one product, or of all.
  func cohorts(_ months: Range<Int>, of product: String?) throws -> [FigureCohort.Key: Int64] {
    let rows = try all(
      "SELECT month, product_id, since, change FROM figure_cohort WHERE month >= ? AND month < ? AND product_id = ?",
      months.lowerBound, months.upperBound, product ?? Self.allProducts,
      as: (Int, String, Int, Int64).self)
    return Dictionary(rows.map { (FigureCohort.Key(month: $0, product: $1, since: $2), $3) }) { one, _ in one }
  }
}
