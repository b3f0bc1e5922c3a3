import FoundationEssentials

/// A moment in whole milliseconds since 1970, Apple's unit.
///
/// Calendar arithmetic is done here, in UTC and without a time zone database, so that a scenario gives the same result
/// on every machine.
struct Timestamp: Hashable, Comparable, Sendable {
  var milliseconds: Int64

  static let second: Int64 = 1_000
  static let day: Int64 = 86_400_000

  init(milliseconds: Int64) { self.milliseconds = milliseconds }

  init(_ date: Date) { self.milliseconds = Int64((date.timeIntervalSince1970 * 1_000).rounded()) }

  /// Parses RFC 3339 with or without a fraction, such as `2026-01-15T12:00:00Z`.
  init?(text: String) {
    let plain = Date.ISO8601FormatStyle()
    let fractional = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
    guard let date = (try? plain.parse(text)) ?? (try? fractional.parse(text)) else { return nil }
    self.init(date)
  }

  var date: Date { Date(timeIntervalSince1970: Double(milliseconds) / 1_000) }

  /// RFC 3339 in UTC, whole seconds, as in receipts.
  var text: String {
    let parts = Self.clock(milliseconds)
    return "\(parts.day)T\(parts.time)Z"
  }

  static func < (lhs: Timestamp, rhs: Timestamp) -> Bool { lhs.milliseconds < rhs.milliseconds }

  func adding(days: Int) -> Timestamp { Timestamp(milliseconds: milliseconds + Int64(days) * Self.day) }

  /// The same day and time a number of months later; the 31st becomes the last day of a shorter month.
  ///
  /// Periods are counted from the first one, so 31 January renews on 28 February and then on 31 March.
  func adding(months: Int) -> Timestamp {
    let days = Self.floorDivide(milliseconds, Self.day)
    let date = CivilDate(daysSince1970: days)
    let total = Int64(date.month - 1 + months)
    let year = date.year + Self.floorDivide(total, 12)
    let month = Int(total - Self.floorDivide(total, 12) * 12) + 1
    let day = min(date.day, CivilDate.length(ofMonth: month, year: year))
    let moved = CivilDate(year: year, month: month, day: day).daysSince1970
    return Timestamp(milliseconds: milliseconds + (moved - days) * Self.day)
  }

  /// `2026-01-15 12:00:00 Etc/GMT`, the text form of Apple's date triplets.
  var gmtText: String {
    let parts = Self.clock(milliseconds)
    return "\(parts.day) \(parts.time) Etc/GMT"
  }

  /// `2026-01-15 04:00:00 America/Los_Angeles`.
  var pacificText: String {
    let offset: Int64 = isPacificDaylightTime ? -7 : -8
    let parts = Self.clock(milliseconds + offset * 3_600_000)
    return "\(parts.day) \(parts.time) America/Los_Angeles"
  }

  /// Daylight time by the rule in force since 2007: second Sunday of March to first Sunday of November, at 2:00 local.
  private var isPacificDaylightTime: Bool {
    let year = CivilDate(daysSince1970: Self.floorDivide(milliseconds, Self.day)).year
    let begins = CivilDate.sunday(2, ofMonth: 3, year: year) * Self.day + 10 * 3_600_000
    let ends = CivilDate.sunday(1, ofMonth: 11, year: year) * Self.day + 9 * 3_600_000
    return milliseconds >= begins && milliseconds < ends
  }

  private static func clock(_ milliseconds: Int64) -> (day: String, time: String) {
    let days = floorDivide(milliseconds, day)
    let seconds = (milliseconds - days * day) / second
    let date = CivilDate(daysSince1970: days)
    let dayText = "\(padded(date.year, 4))-\(padded(Int64(date.month), 2))-\(padded(Int64(date.day), 2))"
    let timeText = "\(padded(seconds / 3_600, 2)):\(padded(seconds / 60 % 60, 2)):\(padded(seconds % 60, 2))"
    return (dayText, timeText)
  }

  private static func padded(_ number: Int64, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.count)) + digits
  }

  private static func floorDivide(_ value: Int64, _ divisor: Int64) -> Int64 {
    value >= 0 ? value / divisor : -((-value + divisor - 1) / divisor)
  }
}

/// A day of the Gregorian calendar.
private struct CivilDate {
  var year: Int64
  var month: Int
  var day: Int

  init(year: Int64, month: Int, day: Int) {
    self.year = year
    self.month = month
    self.day = day
  }

  /// Howard Hinnant's `civil_from_days`: years begin in March, so the leap day is the last of its year.
  init(daysSince1970: Int64) {
    let shifted = daysSince1970 + 719_468
    let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    self.day = Int(dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
    self.month = Int(shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9)
    self.year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
  }

  var daysSince1970: Int64 {
    let shiftedYear = month <= 2 ? year - 1 : year
    let era = (shiftedYear >= 0 ? shiftedYear : shiftedYear - 399) / 400
    let yearOfEra = shiftedYear - era * 400
    let shiftedMonth = Int64(month > 2 ? month - 3 : month + 9)
    let dayOfYear = (153 * shiftedMonth + 2) / 5 + Int64(day) - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    return era * 146_097 + dayOfEra - 719_468
  }

  static func length(ofMonth month: Int, year: Int64) -> Int {
    switch month {
    case 2: year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28
    case 4, 6, 9, 11: 30
    default: 31
    }
  }

  /// The day, since 1970, of a month's nth Sunday. 1 January 1970 was a Thursday.
  static func sunday(_ nth: Int64, ofMonth month: Int, year: Int64) -> Int64 {
    let first = CivilDate(year: year, month: month, day: 1).daysSince1970
    let weekday = ((first + 4) % 7 + 7) % 7
    return first + (7 - weekday) % 7 + (nth - 1) * 7
  }
}
