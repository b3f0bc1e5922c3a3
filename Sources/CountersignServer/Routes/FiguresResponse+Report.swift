import Access
import CountersignAPI
import Entitlements
import Figures
import FoundationEssentials
import Ledger

extension FiguresResponse {
  /// - Parameter rates: `nil`: nothing is converted.
  init(_ report: FigureReport, _ rates: ExchangeRates? = nil) {
    let series = report.series
    let before = FigureCounts(sum: series.before.values)[.active]
    let levels = [before] + series.periods.map { $0.total[.active] }
    let users = report.users(in: series.span.days)
    let attempts = report.webhooks.reduce(0) { $0 + $1.delivered + $1.failed }
    self.init(
      activeBefore: before, churn: series.churn.map(Self.rounded),
      trialConversion: series.trialConversion.map(Self.rounded), refundRate: series.refundRate.map(Self.rounded),
      conversion: Self.ratio(users[.conversions], of: users[.users]),
      paywallConversion: Self.ratio(users[.purchasers], of: users[.viewers]),
      webhookSuccess: Self.ratio(report.webhooks.reduce(0) { $0 + $1.delivered }, of: attempts),
      pending: series.pending,
      subscribers: report.subscribers.map {
        Subscribers(tier: $0.tier.rawValue, status: $0.status.rawValue, users: $0.users)
      },
      nearLimits: report.nearLimits.map {
        NearLimit(feature: $0.feature.rawValue, tier: $0.tier.rawValue, users: $0.users)
      },
      cycles: series.cycles(report.periods).sorted { $0.key < $1.key }.map { period, counts in
        Cycle(
          period: period, active: FigureCounts(sum: counts.values)[.active], money: Money.list(counts),
          converted: rates.flatMap { Money(counts, over: series.span.days, $0) })
      },
      products: series.products.filter { !$0.key.hasPrefix(AppTrial.prefix) }.sorted { $0.key < $1.key }.map {
        product, counts in
        Product(
          productID: product, period: report.periods[product], active: FigureCounts(sum: counts.values)[.active],
          money: Money.list(counts), converted: rates.flatMap { Money(counts, over: series.span.days, $0) })
      },
      webhooks: report.webhooks.map {
        Webhook(webhook: $0.webhook, attempts: $0.delivered + $0.failed, delivered: $0.delivered)
      },
      cohorts: report.cohorts.map {
        Cohort(
          month: FiguresResponse.day($0.month).prefix(7).description, subscriptions: $0.subscriptions, active: $0.active
        )
      },
      periods: zip(series.periods, levels).map { Period($0, after: $1, report.users(in: $0.days), rates) },
      rates: rates.map { Rates($0, of: series) })
  }

  static func ratio(_ part: Int64?, of whole: Int64?) -> Double? {
    guard let whole, whole > 0 else { return nil }
    return rounded(Double(part ?? 0) / Double(whole))
  }

  /// A day as `2026-01-31`.
  static func day(_ day: Int) -> String {
    Date(timeIntervalSince1970: Double(day) * 86_400).rfc3339.prefix(10).description
  }

  static func rounded(_ ratio: Double) -> Double { (ratio * 10_000).rounded() / 10_000 }
}

extension FiguresResponse.Period {
  /// - Parameter active: the paid subscriptions before it.
  fileprivate init(
    _ period: FigureSeries.Period, after active: Int64, _ users: [UserProgress.Step: Int64], _ rates: ExchangeRates?
  ) {
    let total = period.total
    self.init(
      from: FiguresResponse.day(period.days.lowerBound), to: FiguresResponse.day(period.days.upperBound - 1),
      active: total[.active],
      trials: total[.trials], grace: total[.grace], new: total[.new], existing: total[.existing], ended: total[.ended],
      resubscribed: total[.resubscribed], payments: total[.payments], refundedPayments: total[.refundedPayments],
      trialStarts: total[.trialStarts], trialConversions: total[.trialConversions],
      trialsPending: total[.trialsPending], users: users[.users] ?? 0, conversions: users[.conversions] ?? 0,
      viewers: users[.viewers] ?? 0, purchasers: users[.purchasers] ?? 0,
      churn: FiguresResponse.ratio(total[.ended] - total[.resubscribed], of: active),
      money: FiguresResponse.Money.list(period.counts),
      converted: rates.flatMap { FiguresResponse.Money(period.counts, over: period.days, $0) })
  }
}

extension FiguresResponse.Money {
  /// The money of each currency; subscriptions without a price have none.
  fileprivate static func list(_ counts: [String: FigureCounts]) -> [Self] {
    counts.filter { !$0.key.isEmpty }.sorted { $0.key < $1.key }.map { currency, counts in
      Self(
        currency: currency, mrr: amount(counts[.mrr]), arr: amount(counts[.mrr] * 12),
        newMRR: amount(counts[.newMRR]), existingMRR: amount(counts[.existingMRR]), revenue: amount(counts[.revenue]),
        refunds: amount(counts[.refunds]))
    }
  }

  private static func amount(_ milliunits: Int64) -> String { Price(milliunits: milliunits).text }

  /// The sum over all currencies that have a rate: levels by that of the last day, flows by the mean of the days.
  /// - Returns: `nil` where nothing can be converted.
  fileprivate init?(_ counts: [String: FigureCounts], over days: Range<Int>, _ rates: ExchangeRates) {
    let last = days.upperBound - 1..<days.upperBound
    let factors = counts.keys.compactMap { currency in
      rates.factor(currency, over: last).flatMap { level in
        rates.factor(currency, over: days).map { (currency: currency, level: level, flow: $0) }
      }
    }
    guard !factors.isEmpty else { return nil }
    func sum(_ figure: Figure, times count: Double = 1) -> String {
      let sum = factors.reduce(0.0) { sum, factor in
        sum + Double(counts[factor.currency]?[figure] ?? 0) * (figure.isLevel ? factor.level : factor.flow)
      }
      // In whole hundredths. A product of the highest sums and rates is no number of thousandths any more.
      return Self.amount(
        (Int64(exactly: (sum * count / 10).rounded()) ?? 0).multipliedReportingOverflow(by: 10).partialValue)
    }
    self.init(
      currency: rates.currency, mrr: sum(.mrr), arr: sum(.mrr, times: 12), newMRR: sum(.newMRR),
      existingMRR: sum(.existingMRR), revenue: sum(.revenue), refunds: sum(.refunds))
  }
}

extension FiguresResponse.Rates {
  fileprivate init(_ rates: ExchangeRates, of series: FigureSeries) {
    let currencies = Set(series.products.values.flatMap(\.keys) + series.periods.flatMap(\.counts.keys))
    self.init(
      currency: rates.currency, from: FiguresResponse.day(rates.days.lowerBound),
      to: FiguresResponse.day(rates.days.upperBound),
      missing: currencies.filter { !$0.isEmpty && rates.factor($0, over: 0..<1) == nil }.sorted())
  }
}
