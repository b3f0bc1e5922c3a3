internal import Ledger

extension LedgerTables {
  /// The names of the experiments of which somebody saw a variant.
  func countedExperiments(limit: Int) throws -> [String] {
    var names: [String] = []
    while names.count < limit,
      let next = try first(
        "SELECT experiment FROM variant_figure WHERE experiment > ? ORDER BY experiment LIMIT 1", names.last ?? "",
        read: { try $0.get(0, as: String.self) })
    {
      names.append(next)
    }
    return names
  }

  /// The sums of an experiment by variant and currency.
  /// - Parameter days: those of the exposures that count; all without any.
  func variantFigures(of experiment: String, _ days: Range<Int>?) throws -> [String: [String: VariantCounts]] {
    let days = days?.clamped(to: Self.allDays + 1..<Int.max) ?? Self.allDays..<Self.allDays + 1
    let rows = try all(
      """
      SELECT variant, currency, sum(exposed), sum(paid_before), sum(trials), sum(paid), sum(revenue), sum(refunds)
      FROM variant_figure WHERE experiment = ? AND day >= ? AND day < ? GROUP BY variant, currency
      """, experiment, days.lowerBound, days.upperBound
    ) { row in
      var counts = VariantCounts()
      for (column, count) in VariantCounts.all.enumerated() { counts[keyPath: count] = try row.get(2 + column) }
      return (variant: try row.get(0, as: String.self), currency: try row.get(1, as: String.self), counts: counts)
    }
    var figures: [String: [String: VariantCounts]] = [:]
    for row in rows where !row.counts.isZero { figures[row.variant, default: [:]][row.currency] = row.counts }
    return figures
  }
}
