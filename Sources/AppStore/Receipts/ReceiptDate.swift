import Entitlements

package import struct FoundationEssentials.Date

/// The text forms of a moment in receipts, answers and requests, read strictly, without a time zone data base or a locale.
package enum ReceiptDate {
  /// RFC 3339 as in app receipts: `2023-02-22T14:30:15Z`, with a fraction, or with an offset (`+01:00`; Xcode writes
  /// `+0100`).
  package static func parse(rfc3339 text: ArraySlice<UInt8>) -> Date? {
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

  /// The text form of iOS 6-style receipts and of answers: `2015-11-18 04:34:41 Etc/GMT`. Other zones are not read.
  ///
  /// - Parameter zones: names of UTC.
  static func parse(etcGMT text: String, zones: [String] = ["Etc/GMT"]) -> Date? {
    var scanner = Scanner(Array(text.utf8)[...])
    guard let day = scanner.day(), scanner.skip(UInt8(ascii: " ")), let time = scanner.time(),
      scanner.skip(UInt8(ascii: " ")), zones.contains(where: { scanner.rest.elementsEqual($0.utf8) })
    else { return nil }
    return Date(timeIntervalSince1970: Double(day * 86_400 + time))
  }

  /// Whole seconds since 1970 of a moment in UTC; `nil` for an invalid date.
  static func seconds(year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int) -> Int? {
    guard let days = CalendarDay(year: year, month: month, day: day)?.daysSince1970, (0...23).contains(hour),
      (0...59).contains(minute), (0...59).contains(second)
    else { return nil }
    return days * 86_400 + hour * 3_600 + minute * 60 + second
  }

  /// RFC 3339 in UTC, with milliseconds if they are not zero. Every date in a decoded receipt can be spelled so.
  static func format(_ date: Date) -> String {
    Date.spellable.contains(date.millisecondsSince1970) ? date.rfc3339 : "out of range"
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
        guard byte.isDigit else { return nil }
        value = value * 10 + Int(byte - UInt8(ascii: "0"))
      }
      rest = rest.dropFirst(digits)
      return value
    }

    mutating func day() -> Int? {
      guard let year = number(digits: 4), skip(UInt8(ascii: "-")), let month = number(digits: 2),
        skip(UInt8(ascii: "-")), let day = number(digits: 2)
      else { return nil }
      return CalendarDay(year: year, month: month, day: day)?.daysSince1970
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
      let isBehind = skip(UInt8(ascii: "-"))
      guard isBehind || skip(UInt8(ascii: "+")) else { return nil }
      guard let hours = number(digits: 2) else { return nil }
      _ = skip(UInt8(ascii: ":"))
      guard let minutes = number(digits: 2), hours <= 23, minutes <= 59 else { return nil }
      return (isBehind ? -1 : 1) * (hours * 3_600 + minutes * 60)
    }
  }
}
