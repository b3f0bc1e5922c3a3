package import Access
package import Entitlements

/// Figures about subscriptions: see `Figure`.
extension Ledger {
  /// The number of the rules by which purchases are counted: another one has every purchase counted anew.
  static let figureRules = 1

  /// The purchases of a recount's page: a million are marked within minutes, and no receipt waits for long.
  static let recountPage = 500

  /// The transactions that are counted at a time: 20,000 take 26 ms of CPU. A purchase may have thousands.
  static let figureRows = 20_000

  /// Counts the subscribers anew, and begins to have every purchase counted anew if the prices of the catalog, or the rules,
  /// are not those of the last time. `countFigures` goes on with that page by page, also after a restart.
  package func beginFigures(_ terms: [ProductID: Plans.Terms]) async throws(LedgerError) {
    let prices = Self.text(of: terms)
    try await engine.submit { tables in try tables.beginRecount(prices, rules: Self.figureRules) }
    // All users are read at once, which must hold up no receipt; what is wrong then is wrong by as much a moment later.
    let recount = try await read { tables in try tables.recountOfSubscribers() }
    try await engine.submit { tables in try tables.correctSubscribers(by: recount) }
  }

  /// The prices of the catalog, to be compared.
  static func text(of terms: [ProductID: Plans.Terms]) -> String {
    let prices = terms.map { product, terms in
      "\(product): " + terms.prices.map { "\($0.value.text) \($0.key)" }.sorted().joined(separator: ", ")
    }
    return "prices " + prices.sorted().joined(separator: "; ")
  }

  /// Counts what changed since it was counted.
  /// - Returns: how many purchases, or other changes; fewer than the limit when all are counted, while another replica
  ///   counts, or where one with other prices or rules began after this one: what it has counted is not counted by these.
  ///   The limit where a page of a recount was marked, and where purchases are left.
  package func countFigures(
    _ terms: [ProductID: Plans.Terms], limit: Int, rows: Int = figureRows, page: Int = recountPage
  ) async throws(LedgerError) -> Int {
    let prices = Self.text(of: terms)
    return try await engine.submit { tables in
      guard try tables.areFigures(by: prices, rules: Self.figureRules) else { return 0 }
      return try tables.countFigures(terms, limit: limit, rows: rows, page: page)
    }
  }

  /// The figures of a span of days.
  package func figures(over span: FigureSpan) async throws(LedgerError) -> FigureReport {
    try await read { tables in
      let series = try FigureSeries(span, pending: tables.figuresDue(limit: FigureSeries.pendingLimit)) {
        grain, days, by in
        try tables.figures(grain, days, by, of: span.product)
      }
      // By month the funnel is read as such, but where the span has a part of one.
      var funnel = try tables.funnel(span.grain, span.days)
      for period in series.periods where span.grain == .month && !period.isWholeMonth {
        funnel[period.days.lowerBound] = try tables.funnelSum(period.days)
      }
      return FigureReport(
        series: series, subscribers: try tables.subscribers(), periods: try tables.productPeriods(),
        funnel: funnel, nearLimits: try tables.nearLimits(),
        webhooks: try tables.webhookAttempts(span.days),
        cohorts: span.grain == .month ? series.cohorts(try tables.cohorts(span.days, of: span.product)) : [])
    }
  }

  /// The figures that are watched, as of a day.
  package func watchedFigures(today: Int) async throws(LedgerError) -> [WatchedFigure] {
    let span = WatchedFigure.span(today: today)
    let settled = span.days.prefix(WatchedFigure.length)
    let report = try await figures(over: span)
    let users = report.users(in: settled.startIndex..<settled.endIndex)
    let webhooks = try await read { tables in try tables.webhookAttempts(today - WatchedFigure.length..<today + 1) }
    let delivered = webhooks.reduce(0) { $0 + $1.delivered }
    return report.series.watched + [
      WatchedFigure(.conversion, users[.conversions] ?? 0, of: users[.users] ?? 0),
      WatchedFigure(.paywallConversion, users[.purchasers] ?? 0, of: users[.viewers] ?? 0),
      WatchedFigure(.webhookSuccess, delivered, of: webhooks.reduce(delivered) { $0 + $1.failed }),
    ]
  }

  /// The users of each tier and status, by their last verdicts.
  package func subscribers() async throws(LedgerError) -> [SubscriberCount] {
    try await readShort { tables in try tables.subscribers() }
  }
}
