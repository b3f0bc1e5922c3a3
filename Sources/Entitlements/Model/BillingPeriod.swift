package import struct FoundationEssentials.Date

/// How long a subscription's period lasts, as Apple and ISO 8601 write it: `P1M`.
package struct BillingPeriod: Hashable, Sendable {
  /// The unit of a period's length (ISO 8601).
  package enum Unit: String, Hashable, Sendable, CaseIterable {
    case day = "D"
    case week = "W"
    case month = "M"
    case year = "Y"
  }

  package let count: Int
  package let unit: Unit

  package init(count: Int, unit: Unit) {
    self.count = count
    self.unit = unit
  }

  /// Reads `P3D`, `P1W`, `P6M`, or `P1Y`: 1 to 999 of one unit.
  package init?(_ text: String) {
    guard text.hasPrefix("P"), let unit = text.last.flatMap({ Unit(rawValue: String($0)) }) else { return nil }
    let digits = text.dropFirst().dropLast()
    guard (1...3).contains(digits.utf8.count), digits.utf8.allSatisfy({ (0x30...0x39).contains($0) }),
      let count = Int(digits), count > 0
    else { return nil }
    self.init(count: count, unit: unit)
  }

  package var text: String { "P\(count)\(unit.rawValue)" }
}

extension BillingPeriod {
  /// The end of a period that begins at a moment: days and weeks of 24 hours, months and years by the calendar, in UTC.
  ///
  ///     31 January + P1M    28 February, or 29, at the same time of day
  package func end(from start: Date) -> Date {
    let (days, time) = CalendarDay.split(start.millisecondsSince1970)
    let day =
      switch unit {
      case .day: days + count
      case .week: days + 7 * count
      case .month: CalendarDay.adding(months: count, to: days)
      case .year: CalendarDay.adding(months: 12 * count, to: days)
      }
    return Date(millisecondsSince1970: Int64(day) * 86_400_000 + Int64(time))
  }

  /// The period with a number of days; the length of a month or a year gives months or a year.
  package init(days: Int) {
    self =
      switch days {
      case 7: BillingPeriod(count: 1, unit: .week)
      case 14: BillingPeriod(count: 2, unit: .week)
      case 28...31: BillingPeriod(count: 1, unit: .month)
      case 59...62: BillingPeriod(count: 2, unit: .month)
      case 89...92: BillingPeriod(count: 3, unit: .month)
      case 181...184: BillingPeriod(count: 6, unit: .month)
      case 365...366: BillingPeriod(count: 1, unit: .year)
      default: BillingPeriod(count: max(1, days), unit: .day)
      }
  }

  /// The length of a subscription in the App Store that comes nearest to a number of days.
  ///
  /// https://developer.apple.com/help/app-store-connect/manage-subscriptions/offer-auto-renewable-subscriptions
  package init(ofApples days: Int) {
    self =
      switch days {
      case ..<18: BillingPeriod(count: 1, unit: .week)
      case ..<46: BillingPeriod(count: 1, unit: .month)
      case ..<76: BillingPeriod(count: 2, unit: .month)
      case ..<137: BillingPeriod(count: 3, unit: .month)
      case ..<274: BillingPeriod(count: 6, unit: .month)
      default: BillingPeriod(count: 1, unit: .year)
      }
  }

  private static let apples = [
    BillingPeriod(count: 1, unit: .week), BillingPeriod(count: 1, unit: .month), BillingPeriod(count: 2, unit: .month),
    BillingPeriod(count: 3, unit: .month), BillingPeriod(count: 6, unit: .month), BillingPeriod(count: 1, unit: .year),
  ]

  /// The seconds between an end and the nearest one that a period of Apple's has from a start.
  package static func distance(of end: Date, from start: Date) -> Double {
    apples.map { abs($0.end(from: start).timeIntervalSince(end)) }.min() ?? .infinity
  }

  /// The length in days; that of months and years by their mean.
  package var days: Int {
    switch unit {
    case .day: count
    case .week: 7 * count
    case .month: count * 365 / 12
    case .year: 365 * count
    }
  }
}
