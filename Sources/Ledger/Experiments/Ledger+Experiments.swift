package import Access
package import Entitlements

/// The variants of experiments that users saw, and what became of the users: see `VariantCounts`.
extension Ledger {
  /// The variant that a user saw first of each experiment, whether the catalog has the experiment or not.
  /// - Returns: `user`: whom the ID means; another one for an anonymous customer who has signed in since.
  package func exposures(of user: UserID) async throws(LedgerError) -> (user: UserID, exposures: [Exposure]) {
    try await readShort { tables in
      let key = try tables.key(of: user)
      return (UserID(key), try tables.exposures(of: key))
    }
  }

  /// Counts users whose exposures, purchases or trials changed since they were counted.
  /// - Returns: how many; fewer than the limit when all are counted, while another replica counts, or where one with other
  ///   prices or rules began after this one.
  package func countExposures(_ terms: [ProductID: Plans.Terms], limit: Int) async throws(LedgerError) -> Int {
    let isIdle = try await read { tables in try tables.exposuresDue(limit: 1) == 0 }
    guard !isIdle else { return 0 }
    let prices = Self.text(of: terms)
    return try await engine.submit { tables in
      guard try tables.areFigures(by: prices, rules: Self.figureRules) else { return 0 }
      return try tables.countExposures(terms, limit: limit)
    }
  }

  /// The figures of every experiment of which somebody saw a variant.
  /// - Parameter days: the days of the exposures that count, since 1970-01-01 in UTC; all without any.
  package func experimentFigures(exposedIn days: Range<Int>? = nil) async throws(LedgerError) -> ExperimentFigures {
    try await read { tables in
      let limit = FigureSeries.pendingLimit
      var figures = ExperimentFigures(
        pending: min(limit, try tables.figuresDue(limit: limit) + tables.exposuresDue(limit: limit)))
      for name in try tables.countedExperiments(limit: ExperimentFigures.limit) {
        figures.counts[name] = try tables.variantFigures(of: name, days)
      }
      return figures
    }
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
