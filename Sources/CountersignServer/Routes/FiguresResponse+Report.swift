import Access
import CountersignAPI
import Entitlements
import Figures
import FoundationEssentials
import Ledger

extension FiguresResponse {
  init(_ report: FigureReport) {
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
        Cycle(period: period, active: FigureCounts(sum: counts.values)[.active], money: Money.list(counts))
      },
      products: series.products.filter { !$0.key.hasPrefix(AppTrial.prefix) }.sorted { $0.key < $1.key }.map {
        product, counts in
        Product(
          productID: product, period: report.periods[product], active: FigureCounts(sum: counts.values)[.active],
          money: Money.list(counts))
      },
      webhooks: report.webhooks.map {
        Webhook(webhook: $0.webhook, attempts: $0.delivered + $0.failed, delivered: $0.delivered)
      },
      cohorts: report.cohorts.map {
        Cohort(
          month: FiguresResponse.day($0.month).prefix(7).description, subscriptions: $0.subscriptions, active: $0.active
        )
      },
      periods: zip(series.periods, levels).map { Period($0, after: $1, report.users(in: $0.days)) })
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
  init(_ period: FigureSeries.Period, after active: Int64, _ users: [UserProgress.Step: Int64]) {
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
      money: FiguresResponse.Money.list(period.counts))
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
}
