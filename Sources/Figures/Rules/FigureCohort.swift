internal import Entitlements

/// The subscriptions that were first paid for in one month, and the number of them that were paid for later. A subscription
/// without a known first payment is in none.
package struct FigureCohort: Hashable, Sendable {
  /// A change of the number of a cohort's subscriptions that are paid for.
  package struct Key: Hashable, Comparable, Sendable {
    /// The first day of the month of the first payment, since 1970-01-01 in UTC.
    package var month: Int
    /// The product that was paid for first.
    package var product: String
    /// Months since then.
    package var since: Int

    package static func < (one: Self, other: Self) -> Bool {
      (one.month, one.product, one.since) < (other.month, other.product, other.since)
    }
  }

  /// The first day of the month.
  package let month: Int
  package let subscriptions: Int64
  /// The number that was paid for on the last day of the month, of the next one, and so on.
  package let active: [Int64]
}

extension [FigureKey: FigureCounts] {
  /// The changes that one subscription's counts make to its cohort. A grace period is not paid for.
  package var cohort: [FigureCohort.Key: Int64] {
    guard let start = filter({ $0.value[.new] > 0 }).keys.min() else { return [:] }
    let month = CalendarDay.firstOfMonth(of: start.day)
    var changes: [FigureCohort.Key: Int64] = [:]
    for (key, counts) in self {
      let change = counts[.active] - counts[.grace]
      guard change != 0 else { continue }
      let since = CalendarDay.months(from: month, to: key.day)
      changes[FigureCohort.Key(month: month, product: start.product, since: since), default: 0] += change
    }
    return changes.filter { $0.value != 0 }
  }
}

extension FigureSeries {
  /// The cohorts of the whole months of the span, each up to the span's end.
  /// - Parameter changes: of the span's products; others may be added up.
  package func cohorts(_ changes: [FigureCohort.Key: Int64]) -> [FigureCohort] {
    var byMonth: [Int: [Int: Int64]] = [:]
    for (key, change) in changes {
      byMonth[key.month, default: [:]][key.since, default: 0] += change
    }
    let months = periods.filter { span.grain == .month && $0.isWholeMonth }
    return months.enumerated().map { index, period in
      let month = period.days.lowerBound
      var active: [Int64] = []
      for since in 0..<months.count - index {
        active.append((active.last ?? 0) + (byMonth[month]?[since] ?? 0))
      }
      return FigureCohort(month: month, subscriptions: period.total[.new], active: active)
    }
  }
}
