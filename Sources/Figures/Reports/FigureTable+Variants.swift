package import Ledger

extension FigureTable {
  /// The names of the experiments of which somebody saw a variant.
  func countedExperiments(limit: Int) throws -> [String] {
    var names: [String] = []
    while names.count < limit,
      let next = try first(
        "SELECT experiment FROM variant_figure WHERE experiment > ? ORDER BY experiment LIMIT 1", names.last ?? "",
        as: String.self)
    {
      names.append(next)
    }
    return names
  }

  private static let variantSums = SQL(
    """
    SELECT variant, currency, \(VariantCounts.sums) FROM variant_figure
    WHERE experiment = ? AND day >= ? AND day < ? GROUP BY variant, currency
    """)

  /// The sums of an experiment by variant and currency.
  /// - Parameter days: those of the exposures that count; all without any.
  func variantFigures(of experiment: String, _ days: Range<Int>?) throws -> [String: [String: VariantCounts]] {
    let days = days?.clamped(to: Self.allDays + 1..<Int.max) ?? Self.allDays..<Self.allDays + 1
    let rows = try all(
      Self.variantSums, experiment, days.lowerBound, days.upperBound, as: (String, String, VariantCounts).self)
    var figures: [String: [String: VariantCounts]] = [:]
    for (variant, currency, counts) in rows where !counts.isZero {
      figures[variant, default: [:]][currency] = counts
    }
    return figures
  }
}

extension VariantCounts: SQLValue {
  /// In the order of `all`.
  static let columns = ["exposed", "paid_before", "trials", "paid", "revenue", "refunds"]
  static let sums = columns.map { "sum(\($0))" }.joined(separator: ", ")

  package static var width: Int { columns.count }

  package func bind(to statement: any SQLStatement, at index: Int) throws {
    for (place, count) in Self.all.enumerated() { try statement.bind(self[keyPath: count], at: index + place) }
  }

  package init(_ statement: any SQLStatement, _ column: Int) throws {
    self.init()
    for (place, count) in Self.all.enumerated() { self[keyPath: count] = try statement.integer(column + place) }
  }
}
