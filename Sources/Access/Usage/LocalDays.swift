import Entitlements
import struct FoundationEssentials.Date

/// The days of a time zone, by their numbers since 1 January 1970.
///
/// A day begins at the first moment at which the clocks show it: at one o'clock where they go forward at midnight, and
/// at the first of two midnights where they go back. It ends where the next day begins, so that days have no gaps and
/// never overlap, and may last from 23 to 25 hours.
struct LocalDays: Hashable, Sendable {
  let zone: Zone

  func day(of moment: Date) -> Int {
    let time = moment.millisecondsSince1970
    let day = Int((time + zone.offset(at: time)).floored(by: Self.length))
    // Clocks that go back over midnight show the evening again; the day has begun nevertheless.
    return startTime(of: day + 1) <= time ? day + 1 : day
  }

  func start(of day: Int) -> Date { Date(millisecondsSince1970: startTime(of: day)) }

  func moments(of days: Range<Int>) -> Range<Date> { start(of: days.lowerBound)..<start(of: days.upperBound) }

  /// The week of a day, from Monday.
  func week(of day: Int) -> Range<Int> {
    // 1 January 1970 was a Thursday.
    let weekday = day + 3 - Int((Int64(day) + 3).floored(by: 7)) * 7
    return day - weekday..<day - weekday + 7
  }

  func month(of day: Int) -> Range<Int> {
    let date = CalendarDay(since1970: day)
    let first = day - (date.day - 1)
    // 31 days after the first of a month is the next month.
    return first..<first + 31 - (CalendarDay(since1970: first + 31).day - 1)
  }

  private func startTime(of day: Int) -> Int64 {
    let midnight = Int64(day) * Self.length
    // No clock is more than 14 hours ahead of UTC, or 12 behind: the first is before the midnight, the second after it.
    var (before, after) = (midnight - 15 * Self.hour, midnight + 15 * Self.hour)
    let (former, latter) = (zone.offset(at: before), zone.offset(at: after))
    guard former != latter else { return midnight - former }
    // The first moment at which the clocks show the other time, to the millisecond.
    while after - before > 1 {
      let middle = before + (after - before) / 2
      if zone.offset(at: middle) == former { before = middle } else { after = middle }
    }
    return midnight - former < after ? midnight - former : max(after, midnight - latter)
  }

  private static let hour: Int64 = 3_600_000
  private static let length: Int64 = 24 * hour
}
