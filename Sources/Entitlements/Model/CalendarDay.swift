/// A day of the Gregorian calendar, in UTC.
///
/// Counted without a formatter, which would ask for a locale and a time zone, and takes long. The algorithm counts years
/// from 1 March, so that a leap day is the last of its year:
/// https://howardhinnant.github.io/date_algorithms.html#civil_from_days
struct CalendarDay: Hashable {
  var year: Int64
  /// 1 to 12.
  var month: Int64
  /// 1 to 31.
  var day: Int64

  /// - Parameter days: since 1 January 1970; negative before.
  init(since1970 days: Int64) {
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

  /// Whole days since 1970, and the milliseconds of the day that has begun.
  static func split(_ milliseconds: Int64) -> (days: Int64, time: Int64) {
    let (days, time) = milliseconds.quotientAndRemainder(dividingBy: 86_400_000)
    return time < 0 ? (days - 1, time + 86_400_000) : (days, time)
  }
}
