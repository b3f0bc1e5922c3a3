import Entitlements

import struct FoundationEssentials.Date

/// A moment as PostgreSQL reads it: RFC 3339 in UTC with milliseconds, `2026-12-31T00:00:00.000Z`.
enum Timestamp {
  /// From the year 1 to the end of 9999: what RFC 3339 can spell.
  private static let range: ClosedRange<Int64> = -62_135_596_800_000...253_402_300_799_999

  /// A moment outside of those years is written as the nearest within.
  static func text(_ date: Date) -> String {
    let milliseconds = min(max(date.millisecondsSince1970, range.lowerBound), range.upperBound)
    // Counted from the first day of March of the year 0, so that a leap day is the last of its year, and nothing is
    // negative: 719 468 days before 1970.
    let shifted = milliseconds + 719_468 * 86_400_000
    let (days, time) = shifted.quotientAndRemainder(dividingBy: 86_400_000)
    let (era, dayOfEra) = days.quotientAndRemainder(dividingBy: 146_097)
    let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    // March is 0. Five months have 153 days, from March on and from August on.
    let month = (5 * dayOfYear + 2) / 153
    let day = dayOfYear - (153 * month + 2) / 5 + 1
    let year = era * 400 + yearOfEra + (month < 10 ? 0 : 1)
    return "\(digits(year, 4))-\(digits(month < 10 ? month + 3 : month - 9, 2))-\(digits(day, 2))"
      + "T\(digits(time / 3_600_000, 2)):\(digits(time / 60_000 % 60, 2)):\(digits(time / 1000 % 60, 2))"
      + ".\(digits(time % 1000, 3))Z"
  }

  private static func digits(_ number: Int64, _ width: Int) -> String {
    let text = String(number)
    return String(repeating: "0", count: max(0, width - text.count)) + text
  }
}
