import Entitlements

/// The rule of a zone that repeats each year: a value of POSIX's `TZ` as the footer of a TZif file has it.
///
///     CET-1CEST,M3.5.0,M10.5.0/3    an hour ahead; two from the last Sunday of March to that of October, until three
///     <+0330>-3:30                  three and a half hours ahead, always
///
/// POSIX.1-2024, section 8.3, and RFC 8536, section 3.3.1, by which times of day are from -167 to 167 hours. Summer time
/// without dates is refused: nothing says when it would be.
struct YearlyZoneRule: Sendable {
  private struct Summer {
    var offset: Int64
    var begin: ZoneChange
    var end: ZoneChange
  }

  /// Seconds ahead of UTC.
  private let standard: Int64
  private var summer: Summer?

  init?(_ text: some Collection<UInt8>) {
    var input = TZInput(text)
    guard input.skipName(), let behind = input.time(hours: 24) else { return nil }
    standard = -behind
    guard !input.isAtEnd else { return }
    guard input.skipName() else { return nil }
    var ahead = standard + 3600
    if !input.skip(",") {
      guard let behind = input.time(hours: 24), input.skip(",") else { return nil }
      ahead = -behind
    }
    guard let begin = ZoneChange(&input), input.skip(","), let end = ZoneChange(&input), input.isAtEnd else {
      return nil
    }
    summer = Summer(offset: ahead, begin: begin, end: end)
  }

  /// - Parameter time: in seconds since 1970.
  /// - Returns: seconds ahead of UTC.
  func offset(at time: Int64) -> Int64 {
    guard let summer else { return standard }
    var latest = (time: Int64.min, offset: standard)
    func consider(_ change: Int64, _ offset: Int64) {
      if change <= time, change >= latest.time { latest = (change, offset) }
    }
    // A change may be up to a week away from its day, and so in another year.
    let year = CalendarDay(since1970: Int(time.floored(by: 86_400))).year
    for year in year - 1...year + 1 {
      guard let begin = summer.begin.time(in: year), let end = summer.end.time(in: year) else { continue }
      // Summer wins where both are at once: it lasts all year if it ends when the next one begins.
      consider(end - summer.offset, standard)
      consider(begin - standard, summer.offset)
    }
    return latest.offset
  }
}

/// A day of each year, and a time on it.
private struct ZoneChange: Sendable {
  enum Day {
    /// `M3.5.0`: the week from 1 to 5, the last one; the weekday from 0, Sunday.
    case weekday(month: Int, week: Int, weekday: Int)
    /// `J60`: 1 March in every year.
    case ordinary(Int)
    /// `59`: from 0, leap days are counted.
    case zeroBased(Int)
  }

  private let day: Day
  /// Seconds after the midnight that begins the day.
  private var seconds: Int64 = 2 * 3600

  init?(_ input: inout TZInput) {
    if input.skip("M") {
      guard let month = input.number(1...12), input.skip("."), let week = input.number(1...5), input.skip("."),
        let weekday = input.number(0...6)
      else { return nil }
      day = .weekday(month: month, week: week, weekday: weekday)
    } else if input.skip("J") {
      guard let number = input.number(1...365) else { return nil }
      day = .ordinary(number)
    } else {
      guard let number = input.number(0...365) else { return nil }
      day = .zeroBased(number)
    }
    guard input.skip("/") else { return }
    guard let time = input.time(hours: 167) else { return nil }
    seconds = time
  }

  /// Seconds since 1970 on the zone's clocks; `nil` outside the years 0 to 9999.
  func time(in year: Int) -> Int64? {
    func days(_ month: Int, _ day: Int) -> Int? { CalendarDay(year: year, month: month, day: day)?.daysSince1970 }
    guard let newYear = days(1, 1) else { return nil }
    let date: Int
    switch day {
    case .ordinary(let number): date = newYear + number - 1 + (number > 59 && days(2, 29) != nil ? 1 : 0)
    case .zeroBased(let number): date = newYear + number
    case .weekday(let month, let week, let weekday):
      guard let first = days(month, 1) else { return nil }
      // 1 January 1970 was a Thursday.
      let firstWeekday = (((first + 4) % 7) + 7) % 7
      let inFirstWeek = 1 + (weekday - firstWeekday + 7) % 7
      // The fifth week is the fourth in a month that has no fifth such day.
      guard let found = days(month, inFirstWeek + (week - 1) * 7) ?? days(month, inFirstWeek + 21) else { return nil }
      date = found
    }
    return Int64(date) * 86_400 + seconds
  }
}

/// The unread rest of a value of `TZ`.
private struct TZInput {
  private var rest: ArraySlice<UInt8>

  init(_ text: some Collection<UInt8>) { rest = Array(text)[...] }

  var isAtEnd: Bool { rest.isEmpty }

  mutating func skip(_ character: Unicode.Scalar) -> Bool {
    guard rest.first == UInt8(ascii: character) else { return false }
    rest.removeFirst()
    return true
  }

  /// The abbreviation of a zone: three letters or more, or such with digits and signs between `<` and `>`.
  mutating func skipName() -> Bool {
    let isQuoted = skip("<")
    let name = rest.prefix { $0.isLetter || isQuoted && ($0.isDigit || "+-".utf8.contains($0)) }
    rest = rest.dropFirst(name.count)
    return name.count >= 3 && (!isQuoted || skip(">"))
  }

  mutating func number(_ range: ClosedRange<Int>) -> Int? {
    let digits = rest.prefix { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) }
    rest = rest.dropFirst(digits.count)
    guard (1...3).contains(digits.count) else { return nil }
    let number = digits.reduce(0) { $0 * 10 + Int($1 - UInt8(ascii: "0")) }
    return range.contains(number) ? number : nil
  }

  /// `-3:30`, in seconds.
  mutating func time(hours limit: Int) -> Int64? {
    let isNegative = skip("-")
    if !isNegative { _ = skip("+") }
    guard let hours = number(0...limit) else { return nil }
    var seconds = hours * 3600
    if skip(":") {
      guard let minutes = number(0...59) else { return nil }
      seconds += minutes * 60
      if skip(":") {
        guard let more = number(0...59) else { return nil }
        seconds += more
      }
    }
    return Int64(isNegative ? -seconds : seconds)
  }
}
