import FoundationEssentials
import Glibc

/// A moment in whole milliseconds since 1970, Apple's unit.
///
/// Calendar arithmetic is in UTC and needs no time zone database: a scenario gives the same result on every machine.
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
  var text: String { formatted("%04Y-%m-%dT%TZ") }

  static func < (lhs: Timestamp, rhs: Timestamp) -> Bool { lhs.milliseconds < rhs.milliseconds }

  func adding(days: Int) -> Timestamp { Timestamp(milliseconds: milliseconds + Int64(days) * Self.day) }

  /// The same day and time a number of months later; the 31st becomes the last day of a shorter month.
  ///
  /// Periods are counted from the first one, so 31 January renews on 28 February and then on 31 March.
  func adding(months: Int) -> Timestamp {
    var moved = utc
    moved.tm_mon += Int32(months)
    let day = moved.tm_mday
    // `timegm` turns 31 February into a day of March; day 0 of a month is the last one of the month before.
    var seconds = timegm(&moved)
    if moved.tm_mday != day {
      moved.tm_mday = 0
      seconds = timegm(&moved)
    }
    return Timestamp(milliseconds: Int64(seconds) * Self.second + milliseconds - wholeSeconds * Self.second)
  }

  /// `2026-01-15 12:00:00 Etc/GMT`, the text form of Apple's date triplets.
  var gmtText: String { formatted("%04Y-%m-%d %T Etc/GMT") }

  /// `2026-01-15 04:00:00 America/Los_Angeles`.
  var pacificText: String {
    let offset: Int64 = isPacificDaylightTime ? -7 : -8
    return Timestamp(milliseconds: milliseconds + offset * 3_600_000).formatted("%04Y-%m-%d %T America/Los_Angeles")
  }

  /// Daylight time by the rule in force since 2007: second Sunday of March to first Sunday of November, at 2:00 local.
  private var isPacificDaylightTime: Bool {
    let begins = sunday(2, ofMonth: 3, hour: 10)
    let ends = sunday(1, ofMonth: 11, hour: 9)
    return (begins..<ends).contains(wholeSeconds)
  }

  /// The nth Sunday of a month of this moment's year, in seconds since 1970.
  private func sunday(_ nth: Int32, ofMonth month: Int32, hour: Int32) -> Int64 {
    var date = tm()
    (date.tm_year, date.tm_mon, date.tm_mday, date.tm_hour) = (utc.tm_year, month - 1, 1, hour)
    timegm(&date)
    date.tm_mday += (7 - date.tm_wday) % 7 + (nth - 1) * 7
    return Int64(timegm(&date))
  }

  /// Rounded down, also before 1970.
  private var wholeSeconds: Int64 { milliseconds / Self.second - (milliseconds % Self.second < 0 ? 1 : 0) }

  /// The date and the time of day in UTC.
  private var utc: tm {
    var seconds = time_t(wholeSeconds)
    var fields = tm()
    gmtime_r(&seconds, &fields)
    return fields
  }

  /// In UTC, by a format of strftime(3).
  func formatted(_ format: String) -> String {
    var fields = utc
    var text = [UInt8](repeating: 0, count: 64)
    let length = text.withUnsafeMutableBytes { text in
      strftime(text.baseAddress?.assumingMemoryBound(to: CChar.self), text.count, format, &fields)
    }
    return String(decoding: text.prefix(length), as: UTF8.self)
  }
}
