/// A count or an amount about subscriptions, kept by day.
///
/// The names and formulas are those of RevenueCat's charts, so that an operator who comes from there finds the same
/// numbers: https://www.revenuecat.com/docs/dashboard-and-metrics/charts
package enum Figure: Int, CaseIterable, Hashable, Sendable {
  // Levels: the change of a day, so that the level of a day is the sum of all days up to it.
  /// Paid subscriptions, with those in a grace period.
  case active
  /// Trials that run.
  case trials
  /// Subscriptions in a grace period.
  case grace
  /// Monthly recurring revenue, in thousandths of the currency's unit.
  case mrr

  // Flows: the events of a day.
  /// First payments of a subscription, and their monthly recurring revenue.
  case new
  case newMRR
  /// Paid subscriptions that ended, and those that came back after a gap.
  case ended
  case resubscribed
  /// Payments by the day of the payment, and those of them that were refunded since.
  case payments
  case refundedPayments
  case revenue
  case refunds
  /// Trials by the day of their start: all, those that were paid for afterwards, and those that may still be.
  case trialStarts
  case trialConversions
  case trialsPending
  /// Subscriptions whose first transaction is not known, by the first period that is, and their monthly recurring
  /// revenue: customers from before this service, who are not new.
  case existing
  case existingMRR

  /// Whether the figure is a level of a day, and not a flow.
  package var isLevel: Bool { rawValue <= Figure.mrr.rawValue }
}

/// A number for each figure.
package struct FigureCounts: Hashable, Sendable {
  private var values = SIMD32<Int64>()

  package init() {}

  package subscript(figure: Figure) -> Int64 {
    get { values[figure.rawValue] }
    set { values[figure.rawValue] = newValue }
  }

  package var isZero: Bool { values == SIMD32() }

  package static func += (counts: inout Self, other: Self) {
    counts.values &+= other.values
  }

  package static func -= (counts: inout Self, other: Self) {
    counts.values &-= other.values
  }
}

/// The day, product and currency that counts belong to.
package struct FigureKey: Hashable, Comparable, Sendable {
  /// Days since 1970-01-01 in UTC.
  package var day: Int
  package var product: String
  /// As ISO 4217 names it; empty where no price is known.
  package var currency: String

  package static func < (one: Self, other: Self) -> Bool {
    one.day == other.day ? (one.product, one.currency) < (other.product, other.currency) : one.day < other.day
  }
}
