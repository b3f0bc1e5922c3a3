internal import Access
package import Ledger

/// Reads the figures of a span of days.
package struct ReadFigures: LedgerOperation {
  private let span: FigureSpan

  package init(over span: FigureSpan) { self.span = span }

  package func run(_ tables: LedgerTables) throws -> FigureReport {
    let series = try FigureSeries(span, pending: tables.figures.figuresDue(limit: FigureSeries.pendingLimit)) {
      grain, days, by in
      try tables.figures.figures(grain, days, by, of: span.product)
    }
    // Whole months have rows of their own in the funnel; a part of one is added up from its days.
    var funnel = try tables.figures.funnel(span.grain, span.days)
    for period in series.periods where span.grain == .month && !period.isWholeMonth {
      funnel[period.days.lowerBound] = try tables.figures.funnelSum(period.days)
    }
    return FigureReport(
      series: series, subscribers: try tables.figures.subscribers(), periods: try tables.figures.productPeriods(),
      funnel: funnel, nearLimits: try tables.figures.nearLimits(),
      webhooks: try tables.figures.webhookAttempts(span.days),
      cohorts: span.grain == .month ? series.cohorts(try tables.figures.cohorts(span.days, of: span.product)) : [])
  }
}

/// Reads the users of each tier and status, by their last verdicts.
package struct ReadSubscribers: LedgerOperation {
  package init() {}

  package func run(_ tables: LedgerTables) throws -> [SubscriberCount] { try tables.figures.subscribers() }
}

/// Reads the attempts to deliver events in a range of days.
private struct ReadWebhookAttempts: LedgerOperation {
  let days: Range<Int>

  func run(_ tables: LedgerTables) throws -> [WebhookAttempts] { try tables.figures.webhookAttempts(days) }
}

extension Ledger {
  /// The figures that are watched, as of a day.
  package func watchedFigures(today: Int) async throws(LedgerError) -> [WatchedFigure] {
    let span = WatchedFigure.span(today: today)
    let settled = span.days.prefix(WatchedFigure.length)
    let report = try await readLong(ReadFigures(over: span))
    let users = report.users(in: settled.startIndex..<settled.endIndex)
    let webhooks = try await readLong(ReadWebhookAttempts(days: today - WatchedFigure.length..<today + 1))
    let delivered = webhooks.reduce(0) { $0 + $1.delivered }
    return report.series.watched + [
      WatchedFigure(.conversion, users[.conversions] ?? 0, of: users[.users] ?? 0),
      WatchedFigure(.paywallConversion, users[.purchasers] ?? 0, of: users[.viewers] ?? 0),
      WatchedFigure(.webhookSuccess, delivered, of: webhooks.reduce(delivered) { $0 + $1.failed }),
    ]
  }
}
