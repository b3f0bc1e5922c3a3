internal import Ledger

extension FigureTable {
  /// The changes of the cohorts of some months: of one product, or of all.
  func cohorts(_ months: Range<Int>, of product: String?) throws -> [FigureCohort.Key: Int64] {
    Dictionary(
      try all(
        "SELECT month, product_id, since, change FROM figure_cohort WHERE month >= ? AND month < ? AND product_id = ?",
        months.lowerBound, months.upperBound, product ?? Self.allProducts, read: Self.cohort)
    ) { one, _ in one }
  }

  /// The changes of all cohorts, each also under all products.
  func cohorts() throws -> [FigureCohort.Key: Int64] {
    Dictionary(try all("SELECT month, product_id, since, change FROM figure_cohort", read: Self.cohort)) { one, _ in one
    }
  }

  private static func cohort(_ row: SQLRow) throws -> (FigureCohort.Key, Int64) {
    (FigureCohort.Key(month: try row.get(0), product: try row.get(1), since: try row.get(2)), try row.get(3))
  }
}
