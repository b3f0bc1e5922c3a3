import Access
import CountersignAPI
import Entitlements
import Figures
import FoundationEssentials
import JSON
import Ledger

extension FiguresResponse {
  init(_ report: FigureReport) {
    let series = report.series
    let users = report.users(in: series.span.days)
    let attempts = report.webhooks.reduce(0) { $0 + $1.delivered + $1.failed }
    self.init(
      activeBefore: FigureCounts(sum: series.before.values)[.active], churn: series.churn.map(Self.rounded),
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
      products: series.products.sorted { $0.key < $1.key }.map { product, counts in
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
      periods: series.periods.map { Period($0, report.users(in: $0.days)) })
  }

  private static func ratio(_ part: Int64?, of whole: Int64?) -> Double? {
    guard let whole, whole > 0 else { return nil }
    return rounded(Double(part ?? 0) / Double(whole))
  }

  /// A day as `2026-01-31`.
  static func day(_ day: Int) -> String {
    Date(timeIntervalSince1970: Double(day) * 86_400).rfc3339.prefix(10).description
  }

  static func rounded(_ ratio: Double) -> Double { (ratio * 10_000).rounded() / 10_000 }
}

extension FiguresResponse {
  /// The same bytes as the encoder's, whose containers and sorted keys took a third of the time of a page.
  func writeMembers(to json: inout JSONWriter) {
    json.member("active_before", activeBefore)
    json.member("churn", ratio: churn)
    json.array("cohorts") { json in
      for cohort in cohorts {
        json.object { json in
          json.array("active") { json in for number in cohort.active { json.value(number) } }
          json.member("month", cohort.month)
          json.member("subscriptions", cohort.subscriptions)
        }
      }
    }
    json.member("conversion", ratio: conversion)
    json.array("cycles") { json in
      for cycle in cycles {
        json.object { json in
          json.member("active", cycle.active)
          json.member(cycle.money)
          json.member("period", cycle.period)
        }
      }
    }
    json.array("near_limits") { json in
      for limit in nearLimits {
        json.object { json in
          json.member("feature", limit.feature)
          json.member("tier", limit.tier)
          json.member("users", limit.users)
        }
      }
    }
    json.member("paywall_conversion", ratio: paywallConversion)
    json.member("pending", Int64(pending))
    json.array("periods") { json in
      for period in periods { json.object(period.writeMembers) }
    }
    json.array("products") { json in
      for product in products {
        json.object { json in
          json.member("active", product.active)
          json.member(product.money)
          json.member("period", product.period)
          json.member("product_id", product.productID)
        }
      }
    }
    json.member("refund_rate", ratio: refundRate)
    json.array("subscribers") { json in
      for subscribers in subscribers {
        json.object { json in
          json.member("status", subscribers.status)
          json.member("tier", subscribers.tier)
          json.member("users", subscribers.users)
        }
      }
    }
    json.member("trial_conversion", ratio: trialConversion)
    json.member("webhook_success", ratio: webhookSuccess)
    json.array("webhooks") { json in
      for webhook in webhooks {
        json.object { json in
          json.member("attempts", webhook.attempts)
          json.member("delivered", webhook.delivered)
          json.member("webhook", webhook.webhook)
        }
      }
    }
  }
}

extension FiguresResponse.Period {
  fileprivate func writeMembers(to json: inout JSONWriter) {
    json.member("active", active)
    json.member("conversions", conversions)
    json.member("ended", ended)
    json.member("existing", existing)
    json.member("from", from)
    json.member("grace", grace)
    json.member(money)
    json.member("new", new)
    json.member("payments", payments)
    json.member("purchasers", purchasers)
    json.member("refunded_payments", refundedPayments)
    json.member("resubscribed", resubscribed)
    json.member("to", to)
    json.member("trial_conversions", trialConversions)
    json.member("trial_starts", trialStarts)
    json.member("trials", trials)
    json.member("trials_pending", trialsPending)
    json.member("users", users)
    json.member("viewers", viewers)
  }
}

extension JSONWriter {
  fileprivate mutating func member(_ money: [FiguresResponse.Money]) {
    array("money") { json in
      for money in money {
        json.object { json in
          json.member("arr", money.arr)
          json.member("currency", money.currency)
          json.member("existing_mrr", money.existingMRR)
          json.member("mrr", money.mrr)
          json.member("new_mrr", money.newMRR)
          json.member("refunds", money.refunds)
          json.member("revenue", money.revenue)
        }
      }
    }
  }

  /// - Parameter ratio: with four digits; `nil` is written as `null`.
  fileprivate mutating func member(_ name: String, ratio: Double?) {
    guard let ratio else { return member(name, raw: "null") }
    let text = "\(ratio)"
    member(name, raw: text.hasSuffix(".0") ? String(text.dropLast(2)) : text)
  }
}

extension FiguresResponse.Period {
  init(_ period: FigureSeries.Period, _ users: [UserProgress.Step: Int64]) {
    let total = period.total
    self.init(
      from: FiguresResponse.day(period.days.lowerBound), to: FiguresResponse.day(period.days.upperBound - 1),
      active: total[.active],
      trials: total[.trials], grace: total[.grace], new: total[.new], existing: total[.existing], ended: total[.ended],
      resubscribed: total[.resubscribed], payments: total[.payments], refundedPayments: total[.refundedPayments],
      trialStarts: total[.trialStarts], trialConversions: total[.trialConversions],
      trialsPending: total[.trialsPending], users: users[.users] ?? 0, conversions: users[.conversions] ?? 0,
      viewers: users[.viewers] ?? 0, purchasers: users[.purchasers] ?? 0,
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
