import Entitlements
import JSON

import struct FoundationEssentials.Date

/// The forms in which Apple writes a moment.
enum AppleDate {
  /// From the year 1 to the end of 9999, in milliseconds: the range that RFC 3339 can spell.
  private static let range: ClosedRange<Int64> = -62_135_596_800_000...253_402_300_799_999

  /// Milliseconds since 1970.
  static func milliseconds(_ number: Int64) -> Date? {
    range.contains(number) ? Date(millisecondsSince1970: number) : nil
  }

  /// Milliseconds since 1970 with a fraction, as Xcode writes them; what is below a millisecond is dropped.
  static func milliseconds(_ number: Double) -> Date? {
    Int64(exactly: number.rounded(.down)).flatMap(milliseconds)
  }

  /// Milliseconds since 1970 as text: `1401288473000`, or with a fraction.
  static func milliseconds(_ text: String) -> Date? {
    if let number = Int64(decimal: text) { return milliseconds(number) }
    let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 2, !parts[1].isEmpty, parts[1].allSatisfy(isDigit), parts[0].allSatisfy(isDigit) else {
      return nil
    }
    return Int64(decimal: String(decoding: parts[0], as: UTF8.self)).flatMap(milliseconds)
  }

  /// The text form, `2014-06-28 14:47:53 Etc/GMT`.
  ///
  /// Only zones that mean UTC are read. The forms in Pacific time repeat the same moment for people, and in the hour
  /// after summer time they are ambiguous.
  static func text(_ text: String) -> Date? {
    let parts = text.split(separator: " ", omittingEmptySubsequences: false)
    guard parts.count == 3, ["Etc/GMT", "Etc/UTC", "GMT", "UTC"].contains(parts[2]),
      let day = numbers(parts[0], separator: "-", widths: [4, 2, 2]),
      let time = numbers(parts[1], separator: ":", widths: [2, 2, 2])
    else { return nil }
    return moment(
      year: day[0], month: day[1], day: day[2], hour: time[0], minute: time[1], second: time[2])
  }

  /// A moment of the Gregorian calendar in UTC; `nil` for one that the calendar does not have.
  static func moment(year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int) -> Date? {
    let isLeapYear = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
    let lengths = [31, isLeapYear ? 29 : 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
    guard (1...9999).contains(year), (1...12).contains(month), (1...lengths[month - 1]).contains(day),
      (0...23).contains(hour), (0...59).contains(minute), (0...59).contains(second)
    else { return nil }
    let years = year - 1
    let daysBeforeYear = years * 365 + years / 4 - years / 100 + years / 400
    // 719 162 days lie between the first day of the year 1 and the first of 1970.
    let days = daysBeforeYear + lengths.prefix(month - 1).reduce(0, +) + day - 1 - 719_162
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second
    return Date(millisecondsSince1970: Int64(seconds) * 1000)
  }

  private static func numbers(_ text: Substring, separator: Character, widths: [Int]) -> [Int]? {
    let parts = text.split(separator: separator, omittingEmptySubsequences: false)
    guard parts.count == widths.count else { return nil }
    var numbers: [Int] = []
    for (part, width) in zip(parts, widths) {
      guard part.utf8.count == width, part.utf8.allSatisfy(isDigit), let number = Int(part) else { return nil }
      numbers.append(number)
    }
    return numbers
  }

  private static func isDigit(_ byte: UInt8) -> Bool { (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) }
}

/// The members under which Apple writes one moment, spelled out once.
struct AppleDateNames: ExpressibleByStringLiteral, Sendable {
  /// Milliseconds since 1970. Where it has any, nothing else is looked at.
  let milliseconds: String
  /// Text, or milliseconds in iOS 6-style answers; the second is text there.
  let texts: [String]
  /// The same in Pacific time.
  let pacific: [String]

  init(stringLiteral name: String) {
    milliseconds = name + "_ms"
    texts = [name, name + "_formatted"]
    pacific = [name + "_pst", name + "_formatted_pst"]
  }

  /// For the selection of what is parsed: `JSONValue.date(_:)` looks at the others only without the first.
  var precedence: JSONSelection.Precedence { .init(of: milliseconds, over: texts + pacific) }
}

extension JSONValue {
  /// A moment that Apple writes under several keys: `x_ms`, `x`, `x_formatted`, each also with `_pst`.
  ///
  /// The first of them that is there counts. `x` alone is text in app receipts and milliseconds in iOS 6-style ones.
  ///
  /// - Returns: `nil` when none is there.
  /// - Throws: `JSONError.unreadable` when one is there and cannot be read, also when all that is there is a form that
  ///   is not read (Pacific time): a refund whose date is unclear must not become a purchase.
  func date(_ names: AppleDateNames) throws(JSONError) -> Date? {
    let milliseconds = names.milliseconds
    switch kind(milliseconds) {
    case nil, .null, .string(""): break
    case .integer(let number): return try orUnreadable(AppleDate.milliseconds(number), milliseconds)
    case .real(let number): return try orUnreadable(AppleDate.milliseconds(number), milliseconds)
    case .string(let text): return try orUnreadable(AppleDate.milliseconds(text), milliseconds)
    case .object, .array, .bool: throw unreadable(milliseconds)
    }
    for key in names.texts {
      switch kind(key) {
      case nil, .null, .string(""): continue
      case .integer(let number): return try orUnreadable(AppleDate.milliseconds(number), key)
      case .real(let number): return try orUnreadable(AppleDate.milliseconds(number), key)
      case .string(let text):
        return try orUnreadable(AppleDate.text(text) ?? AppleDate.milliseconds(text), key)
      case .object, .array, .bool: throw unreadable(key)
      }
    }
    for key in names.pacific where try text(key) != nil { throw unreadable(key) }
    return nil
  }

  private func orUnreadable(_ date: Date?, _ key: String) throws(JSONError) -> Date {
    guard let date else { throw unreadable(key) }
    return date
  }
}
