import struct FoundationEssentials.Date

/// The text forms of a moment in receipts, read strictly.
///
/// No time zone data base, no locale: days are counted in the proleptic Gregorian calendar.
enum ReceiptDate {
  /// RFC 3339 as in app receipts: `2023-02-22T14:30:15Z`, with a fraction, or with an offset (`+01:00`; Xcode writes
  /// `+0100`).
  static func parse(rfc3339 text: String) -> Date? { parse(rfc3339: Array(text.utf8)[...]) }

  static func parse(rfc3339 text: ArraySlice<UInt8>) -> Date? {
    var scanner = Scanner(text)
    guard let day = scanner.day(), scanner.skip(UInt8(ascii: "T")), let time = scanner.time() else { return nil }
    var fraction = 0.0
    if scanner.skip(UInt8(ascii: ".")) {
      guard let digits = scanner.fraction() else { return nil }
      fraction = digits
    }
    guard let offset = scanner.offset(), scanner.isAtEnd else { return nil }
    return Date(timeIntervalSince1970: Double(day * 86_400 + time - offset) + fraction)
  }

  /// The text form of iOS 6-style receipts: `2015-11-18 04:34:41 Etc/GMT`. Other zones are not read.
  static func parse(etcGMT text: String) -> Date? {
    var scanner = Scanner(Array(text.utf8)[...])
    guard let day = scanner.day(), scanner.skip(UInt8(ascii: " ")), let time = scanner.time(),
      scanner.skip(UInt8(ascii: " ")), scanner.rest.elementsEqual("Etc/GMT".utf8)
    else { return nil }
    return Date(timeIntervalSince1970: Double(day * 86_400 + time))
  }

  /// Whole seconds since 1970 of a moment in UTC; `nil` when the fields are no date.
  static func seconds(year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int) -> Int? {
    guard let days = days(year: year, month: month, day: day), (0...23).contains(hour), (0...59).contains(minute),
      (0...59).contains(second)
    else { return nil }
    return days * 86_400 + hour * 3_600 + minute * 60 + second
  }

  /// RFC 3339 in UTC; a fraction is written (in milliseconds) only where there is one.
  static func format(_ date: Date) -> String {
    let milliseconds = (date.timeIntervalSince1970 * 1_000).rounded()
    // Four-digit years; what lies outside comes from no receipt that was decoded here.
    guard milliseconds.isFinite, abs(milliseconds) < 253_402_300_800_000 else { return "out of range" }
    let total = Int(milliseconds)
    let seconds = total.flooringDivision(by: 1_000)
    let days = seconds.flooringDivision(by: 86_400)
    let inDay = seconds - days * 86_400
    let (year, month, day) = civil(days: days)
    let fraction = total - seconds * 1_000
    let text =
      "\(padded(year, 4))-\(padded(month, 2))-\(padded(day, 2))"
      + "T\(padded(inDay / 3_600, 2)):\(padded(inDay / 60 % 60, 2)):\(padded(inDay % 60, 2))"
    return fraction == 0 ? text + "Z" : text + ".\(padded(fraction, 3))Z"
  }

  private static func padded(_ number: Int, _ width: Int) -> String {
    let digits = String(number)
    return String(repeating: "0", count: max(0, width - digits.count)) + digits
  }

  /// Days since 1970-01-01 (Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms").
  private static func days(year: Int, month: Int, day: Int) -> Int? {
    let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    let length =
      switch month {
      case 2: isLeap ? 29 : 28
      case 4, 6, 9, 11: 30
      default: 31
      }
    guard (0...9_999).contains(year), (1...12).contains(month), (1...length).contains(day) else { return nil }
    let shifted = month <= 2 ? year - 1 : year
    let era = shifted.flooringDivision(by: 400)
    let yearOfEra = shifted - era * 400
    let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
    let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
    return era * 146_097 + dayOfEra - 719_468
  }

  private static func civil(days: Int) -> (year: Int, month: Int, day: Int) {
    let shifted = days + 719_468
    let era = shifted.flooringDivision(by: 146_097)
    let dayOfEra = shifted - era * 146_097
    let yearOfEra = (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
    let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
    let shiftedMonth = (5 * dayOfYear + 2) / 153
    let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
    return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1)
  }

  /// Reads fields of fixed width from the front of a text.
  private struct Scanner {
    private(set) var rest: ArraySlice<UInt8>

    init(_ text: ArraySlice<UInt8>) { rest = text }

    var isAtEnd: Bool { rest.isEmpty }

    mutating func skip(_ byte: UInt8) -> Bool {
      guard rest.first == byte else { return false }
      rest = rest.dropFirst()
      return true
    }

    mutating func number(digits: Int) -> Int? {
      guard rest.count >= digits else { return nil }
      var value = 0
      for byte in rest.prefix(digits) {
        guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) else { return nil }
        value = value * 10 + Int(byte - UInt8(ascii: "0"))
      }
      rest = rest.dropFirst(digits)
      return value
    }

    mutating func day() -> Int? {
      guard let year = number(digits: 4), skip(UInt8(ascii: "-")), let month = number(digits: 2),
        skip(UInt8(ascii: "-")), let day = number(digits: 2)
      else { return nil }
      return ReceiptDate.days(year: year, month: month, day: day)
    }

    mutating func time() -> Int? {
      guard let hour = number(digits: 2), skip(UInt8(ascii: ":")), let minute = number(digits: 2),
        skip(UInt8(ascii: ":")), let second = number(digits: 2), hour <= 23, minute <= 59, second <= 59
      else { return nil }
      return hour * 3_600 + minute * 60 + second
    }

    /// One to nine digits.
    mutating func fraction() -> Double? {
      var value = 0.0
      var scale = 0.1
      var count = 0
      while let digit = number(digits: 1) {
        value += Double(digit) * scale
        scale /= 10
        count += 1
      }
      return (1...9).contains(count) ? value : nil
    }

    mutating func offset() -> Int? {
      if skip(UInt8(ascii: "Z")) { return 0 }
      let sign: Int
      if skip(UInt8(ascii: "+")) {
        sign = 1
      } else if skip(UInt8(ascii: "-")) {
        sign = -1
      } else {
        return nil
      }
      guard let hours = number(digits: 2) else { return nil }
      _ = skip(UInt8(ascii: ":"))
      guard let minutes = number(digits: 2), hours <= 23, minutes <= 59 else { return nil }
      return sign * (hours * 3_600 + minutes * 60)
    }
  }
}

extension Int {
  /// Division that rounds towards minus infinity, for a divisor above zero.
  fileprivate func flooringDivision(by divisor: Int) -> Int {
    self >= 0 ? self / divisor : -((-self + divisor - 1) / divisor)
  }
}
