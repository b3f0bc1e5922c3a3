import Access
import CountersignAPI
import Entitlements
import FoundationEssentials
import Ledger

extension FiguresResponse {
  init(_ report: FigureReport) {
    let series = report.series
    self.init(
      activeBefore: FigureCounts(sum: series.before.values)[.active], churn: series.churn.map(Self.rounded),
      trialConversion: series.trialConversion.map(Self.rounded), refundRate: series.refundRate.map(Self.rounded),
      pending: series.pending,
      subscribers: report.subscribers.map {
        Subscribers(tier: $0.tier.rawValue, status: $0.status.rawValue, users: $0.users)
      },
      cycles: series.cycles(report.periods).sorted { $0.key < $1.key }.map { period, counts in
        Cycle(period: period, active: FigureCounts(sum: counts.values)[.active], money: Money.list(counts))
      },
      products: series.products.sorted { $0.key < $1.key }.map { product, counts in
        Product(
          productID: product, period: report.periods[product], active: FigureCounts(sum: counts.values)[.active],
          money: Money.list(counts))
      },
      periods: series.periods.map(Period.init))
  }

  private static func rounded(_ ratio: Double) -> Double { (ratio * 10_000).rounded() / 10_000 }
}

extension FiguresResponse.Period {
  init(_ period: FigureSeries.Period) {
    let total = period.total
    self.init(
      from: Self.text(period.days.lowerBound), to: Self.text(period.days.upperBound - 1), active: total[.active],
      trials: total[.trials], grace: total[.grace], new: total[.new], ended: total[.ended],
      resubscribed: total[.resubscribed], payments: total[.payments], refundedPayments: total[.refundedPayments],
      trialStarts: total[.trialStarts], trialConversions: total[.trialConversions],
      trialsPending: total[.trialsPending], money: FiguresResponse.Money.list(period.counts))
  }

  private static func text(_ day: Int) -> String {
    Date(timeIntervalSince1970: Double(day) * 86_400).rfc3339.prefix(10).description
  }
}

extension FiguresResponse.Money {
  /// The money of each currency; subscriptions without a price have none.
  fileprivate static func list(_ counts: [String: FigureCounts]) -> [Self] {
    counts.filter { !$0.key.isEmpty }.sorted { $0.key < $1.key }.map { currency, counts in
      Self(
        currency: currency, mrr: amount(counts[.mrr]), arr: amount(counts[.mrr] * 12),
        newMRR: amount(counts[.newMRR]), revenue: amount(counts[.revenue]), refunds: amount(counts[.refunds]))
    }
  }

  private static func amount(_ milliunits: Int64) -> String { Price(milliunits: milliunits).text }
}
