internal import Entitlements
package import struct FoundationEssentials.Date

/// An exact amount of money, in thousandths of the currency's unit, as Apple has it: 4.99 is 4,990.
package struct Price: Hashable, Sendable {
  package let milliunits: Int64

  package init(milliunits: Int64) { self.milliunits = milliunits }

  /// Reads `4.99`, `5`, or `0.125`: up to nine digits, and three after the point.
  package init?(_ text: String) {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard let whole = parts.first, parts.count <= 2, Self.isDigits(whole, 1...9), let units = Int64(whole) else {
      return nil
    }
    let fraction = parts.dropFirst().first
    guard fraction.map({ Self.isDigits($0, 1...3) }) ?? true else { return nil }
    let digits = (fraction ?? "") + String(repeating: "0", count: 3 - (fraction?.count ?? 0))
    guard let thousandths = Int64(digits) else { return nil }
    milliunits = units * 1000 + thousandths
  }

  /// The price as the configuration writes it: `4.99`, with at least two digits after the point.
  package var text: String {
    let (units, thousandths) = milliunits.magnitude.quotientAndRemainder(dividingBy: 1000)
    let (hundredths, last) = thousandths.quotientAndRemainder(dividingBy: 10)
    let fraction = last == 0 ? "" : "\(last)"
    return "\(milliunits < 0 ? "-" : "")\(units).\(hundredths / 10)\(hundredths % 10)\(fraction)"
  }

  private static func isDigits(_ text: Substring, _ count: ClosedRange<Int>) -> Bool {
    count.contains(text.utf8.count) && text.utf8.allSatisfy { (0x30...0x39).contains($0) }
  }
}

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

  /// The end of a period that begins at a moment: months and years by the calendar, in UTC, and on the last day of a
  /// shorter month, as the App Store counts them.
  package func end(from begin: Date) -> Date {
    let milliseconds = begin.millisecondsSince1970
    let date = CalendarDay(since1970: begin.utcDay)
    let months: Int
    switch unit {
    case .day: return begin.advanced(by: .seconds(count * 86_400))
    case .week: return begin.advanced(by: .seconds(count * 7 * 86_400))
    case .month: months = date.year * 12 + date.month - 1 + count
    case .year: months = (date.year + count) * 12 + date.month - 1
    }
    let day = (0..<4).lazy.compactMap { less in
      CalendarDay(year: months / 12, month: months % 12 + 1, day: date.day - less)
    }.first
    guard let day else { return begin }
    let time = milliseconds - Int64(begin.utcDay) * 86_400_000
    return Date(millisecondsSince1970: Int64(day.daysSince1970) * 86_400_000 + time)
  }

  /// The text as it stands in the configuration.
  package var text: String { "P\(count)\(unit.rawValue)" }
}

extension BillingPeriod {
  /// The period of so many days: as long as a month or a year may be, it is one.
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
}
