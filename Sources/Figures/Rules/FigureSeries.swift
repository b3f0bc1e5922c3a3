internal import Entitlements
internal import struct FoundationEssentials.Date

/// The length of a period of figures.
package enum FigureGrain: String, Hashable, Sendable {
  case day
  case month
}

/// The key that sums of figures have beside the currency.
package enum FigureGrouping: Hashable, Sendable {
  case day
  case product
  /// By product, the levels alone.
  case levels
}

/// A span of days, by day or by month.
package struct FigureSpan: Hashable, Sendable {
  /// Days since 1970-01-01 in UTC.
  package let days: Range<Int>
  package let grain: FigureGrain
  /// The one product that counts; `nil` for all.
  package let product: String?

  /// The most days of a span; by day, those of a quarter.
  package static func limit(_ grain: FigureGrain) -> Int { grain == .day ? 92 : 1_100 }

  package init(days: Range<Int>, grain: FigureGrain, product: String? = nil) {
    self.days = days
    self.grain = grain
    self.product = product
  }
}

/// The figures of each day or month of a span.
package struct FigureSeries: Hashable, Sendable {
  /// A day, a month, or the part of a month that lies in the span.
  package struct Period: Hashable, Sendable {
    /// Days since 1970-01-01 in UTC.
    package var days: Range<Int>
    /// By currency. Levels are those at the end of the last day.
    package var counts: [String: FigureCounts]
    /// Over all currencies; meaningless for money.
    package var total: FigureCounts { FigureCounts(sum: counts.values) }

    package var isWholeMonth: Bool { FigureSeries.isWholeMonth(days) }
  }

  package let span: FigureSpan
  /// The levels at the end of the day before the span.
  package let before: [String: FigureCounts]
  package let periods: [Period]
  /// By product and currency: the levels at the end of the span, and its flows.
  package let products: [String: [String: FigureCounts]]
  /// Purchases that changed and are not counted yet, at most `pendingLimit`.
  package let pending: Int

  package static let pendingLimit = 1_000

  /// - Parameter read: the sums of the days, or of the months by their first days, in a range. By day, products may be added
  ///   up, and by product, days; of a span of one product only that one's.
  package init(
    _ span: FigureSpan, pending: Int,
    _ read: (FigureGrain, Range<Int>, FigureGrouping) throws -> [FigureKey: FigureCounts]
  ) rethrows {
    self.span = span
    self.pending = pending
    var products: [String: [String: FigureCounts]] = [:]
    func sums(_ grain: FigureGrain, _ days: Range<Int>) throws -> [Int: [String: FigureCounts]] {
      var sums: [Int: [String: FigureCounts]] = [:]
      for (key, counts) in try read(grain, days, .day) {
        sums[key.day, default: [:]][key.currency, default: FigureCounts()] += counts
      }
      return sums
    }
    var levels: [String: FigureCounts] = [:]
    for part in Self.monthsAndDays(of: Self.dayOne..<span.days.lowerBound) {
      for (key, counts) in try read(part.grain, part.days, .levels) {
        levels[key.currency, default: FigureCounts()].add(counts.levels, part.isTakenBack)
        products[key.product, default: [:]][key.currency, default: FigureCounts()].add(counts.levels, part.isTakenBack)
      }
    }
    levels = levels.filter { !$0.value.isZero }
    before = levels

    for part in Self.monthsAndDays(of: span.days) {
      for (key, counts) in try read(part.grain, part.days, .product) {
        products[key.product, default: [:]][key.currency, default: FigureCounts()].add(counts, part.isTakenBack)
      }
    }

    let pieces = Self.pieces(of: span)
    // Whole months have rows of their own; the other periods are added up from their days.
    let whole = pieces.filter { span.grain == .month && Self.isWholeMonth($0) }
    let months = try whole.isEmpty ? [:] : sums(.month, whole[0].lowerBound..<whole[whole.count - 1].upperBound)
    let parts = whole.isEmpty ? [span.days] : pieces.filter { !whole.contains($0) }
    var days: [Int: [String: FigureCounts]] = [:]
    for part in parts { days.merge(try sums(.day, part)) { one, _ in one } }
    var periods: [Period] = []
    for piece in pieces {
      let rows = whole.contains(piece) ? [months[piece.lowerBound] ?? [:]] : piece.compactMap { days[$0] }
      var counts = levels
      for (currency, row) in rows.joined() { counts[currency, default: FigureCounts()] += row }
      levels = counts.mapValues(\.levels)
      periods.append(Period(days: piece, counts: counts))
    }
    self.periods = periods
    self.products = products.mapValues { $0.filter { !$0.value.isZero } }.filter { !$0.value.isEmpty }
  }

  /// As `products`, by the length of their periods.
  /// - Parameter length: of each product's periods; products without one are not for renewal.
  package func cycles(_ length: [String: String]) -> [String: [String: FigureCounts]] {
    var cycles: [String: [String: FigureCounts]] = [:]
    for (product, counts) in products {
      guard let length = length[product] else { continue }
      for (currency, counts) in counts { cycles[length, default: [:]][currency, default: FigureCounts()] += counts }
    }
    return cycles
  }

  /// Subscriptions that ended in the span and did not come back, per one that was active before it; negative if more came
  /// back than ended. `nil` if none was active.
  package var churn: Double? {
    ratio(flow(.ended) - flow(.resubscribed), of: FigureCounts(sum: before.values)[.active])
  }

  /// The part of the trials that began in the span and were paid for since.
  package var trialConversion: Double? { ratio(flow(.trialConversions), of: flow(.trialStarts)) }

  /// The part of the span's payments that were refunded since.
  package var refundRate: Double? { ratio(flow(.refundedPayments), of: flow(.payments)) }

  /// The sum of a flow over the span.
  package func flow(_ figure: Figure) -> Int64 { periods.reduce(0) { $0 + $1.total[figure] } }

  private func ratio(_ part: Int64, of whole: Int64) -> Double? { whole > 0 ? Double(part) / Double(whole) : nil }

  private static func nextMonth(_ day: Int) -> Int {
    CalendarDay.firstOfMonth(of: CalendarDay.firstOfMonth(of: day) + 31)
  }

  private static func isWholeMonth(_ days: Range<Int>) -> Bool {
    CalendarDay.firstOfMonth(of: days.lowerBound) == days.lowerBound && nextMonth(days.lowerBound) == days.upperBound
  }

  /// The first day of a month before every counted day.
  private static let dayOne = CalendarDay.firstOfMonth(of: Int(Int32.min))

  /// A range of days as the months that come nearest to it, the days that those lack, and those to be taken back: few rows
  /// are read, of at most half a month at each end.
  package static func monthsAndDays(
    of days: Range<Int>
  ) -> [(grain: FigureGrain, days: Range<Int>, isTakenBack: Bool)] {
    let (start, end) = (nearestMonth(days.lowerBound), nearestMonth(days.upperBound))
    guard start < end else { return days.isEmpty ? [] : [(.day, days, false)] }
    return [
      (.month, start..<end, false),
      (.day, min(start, days.lowerBound)..<max(start, days.lowerBound), start < days.lowerBound),
      (.day, min(end, days.upperBound)..<max(end, days.upperBound), days.upperBound < end),
    ].filter { !$0.days.isEmpty }
  }

  /// The first day of the month, or that of the next one if it is nearer.
  private static func nearestMonth(_ day: Int) -> Int {
    let (first, next) = (CalendarDay.firstOfMonth(of: day), nextMonth(day))
    return day - first <= next - day ? first : next
  }

  private static func pieces(of span: FigureSpan) -> [Range<Int>] {
    guard span.grain == .month else { return span.days.map { $0..<$0 + 1 } }
    var pieces: [Range<Int>] = []
    var start = span.days.lowerBound
    while start < span.days.upperBound {
      let end = min(nextMonth(start), span.days.upperBound)
      pieces.append(start..<end)
      start = end
    }
    return pieces
  }
}

extension FigureCounts {
  package init(sum counts: some Sequence<FigureCounts>) {
    self.init()
    for one in counts { self += one }
  }

  fileprivate mutating func add(_ counts: FigureCounts, _ isTakenBack: Bool) {
    if isTakenBack { self -= counts } else { self += counts }
  }

  /// The levels alone, without a day's flows.
  fileprivate var levels: Self {
    var levels = self
    for figure in Figure.allCases where !figure.isLevel { levels[figure] = 0 }
    return levels
  }
}
