package import struct FoundationEssentials.Date

/// A day of the Gregorian calendar, in UTC.
///
/// Computed without a formatter, which is slow and would need a locale and a time zone. The algorithm counts years from
/// 1 March, so that a leap day is the last of its year:
/// https://howardhinnant.github.io/date_algorithms.html
package struct CalendarDay: Hashable, Sendable {
  package var year: Int
  /// 1 to 12.
  package var month: Int
  /// 1 to 31.
  package var day: Int

  /// - Parameter days: since 1 January 1970; negative for earlier days.
  package init(since1970 days: Int) {
    let days = days + 719_468
    let era = (days >= 0 ? days : days - 146_096) / 146_097
    let dayOfEra = days - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let marchMonth = (5 * dayOfYear + 2) / 153
    day = dayOfYear - (153 * marchMonth + 2) / 5 + 1
    month = marchMonth < 10 ? marchMonth + 3 : marchMonth - 9
    year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
  }

  /// A day of the years 0 to 9999; `nil` for an invalid date.
  package init?(year: Int, month: Int, day: Int) {
    let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    let length =
      switch month {
      case 2: isLeap ? 29 : 28
      case 4, 6, 9, 11: 30
      default: 31
      }
    guard (0...9_999).contains(year), (1...12).contains(month), (1...length).contains(day) else { return nil }
    self.year = year
    self.month = month
    self.day = day
  }

  package var daysSince1970: Int {
    let marchYear = month <= 2 ? year - 1 : year
    let era = (marchYear >= 0 ? marchYear : marchYear - 399) / 400
    let yearOfEra = marchYear - era * 400
    let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    return era * 146_097 + dayOfEra - 719_468
  }

  /// The first day of the month of a day, both since 1 January 1970.
  package static func firstOfMonth(of day: Int) -> Int {
    var date = CalendarDay(since1970: day)
    date.day = 1
    return date.daysSince1970
  }

  /// The same day of a later month, or its last day where it is shorter; both since 1 January 1970.
  static func adding(months: Int, to day: Int) -> Int {
    let date = CalendarDay(since1970: day)
    let month = date.year * 12 + date.month - 1 + months
    var sum = date
    (sum.year, sum.month, sum.day) = (month / 12, month % 12 + 1, 1)
    let first = sum.daysSince1970
    sum.month += 1
    if sum.month > 12 { (sum.year, sum.month) = (sum.year + 1, 1) }
    return min(first + date.day, sum.daysSince1970) - 1
  }

  /// The number of months from that of one day to that of another, both since 1 January 1970.
  package static func months(from one: Int, to other: Int) -> Int {
    let (one, other) = (CalendarDay(since1970: one), CalendarDay(since1970: other))
    return (other.year - one.year) * 12 + other.month - one.month
  }

  /// Whole days since 1970, and the milliseconds since the start of the day.
  static func split(_ milliseconds: Int64) -> (days: Int, time: Int) {
    let (days, time) = milliseconds.quotientAndRemainder(dividingBy: 86_400_000)
    return time < 0 ? (Int(days) - 1, Int(time) + 86_400_000) : (Int(days), Int(time))
  }
}

extension Date {
  /// Days since 1970-01-01 in UTC.
  package var utcDay: Int { Int((timeIntervalSince1970 / 86_400).rounded(.down)) }
}
