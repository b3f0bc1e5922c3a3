package import Ledger

/// Reads the figures of every experiment of which somebody saw a variant.
package struct ReadExperimentFigures: LedgerOperation {
  private let days: Range<Int>?

  /// - Parameter days: the days of the exposures that count, since 1970-01-01 in UTC; all without any.
  package init(exposedIn days: Range<Int>? = nil) { self.days = days }

  package func run(_ tables: LedgerTables) throws -> ExperimentFigures {
    let limit = FigureSeries.pendingLimit
    var figures = ExperimentFigures(
      pending: min(limit, try tables.figures.figuresDue(limit: limit) + tables.figures.exposuresDue(limit: limit)))
    for name in try tables.figures.countedExperiments(limit: ExperimentFigures.limit) {
      figures.counts[name] = try tables.figures.variantFigures(of: name, days)
    }
    return figures
  }
}

/// The figures of experiments: users by the variant that they saw first, and their payments since.
package struct ExperimentFigures: Sendable {
  /// By experiment, variant and currency; the numbers of users are under no currency.
  package var counts: [String: [String: [String: VariantCounts]]] = [:]
  /// Purchases and users that changed and are not counted yet, at most `FigureSeries.pendingLimit`.
  package var pending: Int

  /// The most experiments, of which each keeps its figures for ever.
  static let limit = 500
}
