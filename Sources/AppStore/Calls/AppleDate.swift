import Entitlements
import JSON

import struct FoundationEssentials.Date

/// The forms in which Apple writes a moment.
enum AppleDate {
  /// Milliseconds since 1970; `nil` for a moment that RFC 3339 cannot spell.
  static func milliseconds(_ number: Int64) -> Date? {
    Date.spellable.contains(number) ? Date(millisecondsSince1970: number) : nil
  }

  /// Milliseconds since 1970 with a fraction, as Xcode writes them; the fraction is dropped.
  static func milliseconds(_ number: Double) -> Date? { Int64(exactly: number.rounded(.down)).flatMap(milliseconds) }

  /// Milliseconds since 1970 as text: `1401288473000`, or with a fraction.
  static func milliseconds(_ text: String) -> Date? {
    if let number = Int64(decimal: text) { return milliseconds(number) }
    let parts = text.utf8.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
    guard parts.count == 2, !parts[1].isEmpty, parts[1].allSatisfy(\.isDigit), parts[0].allSatisfy(\.isDigit) else {
      return nil
    }
    return Int64(decimal: String(decoding: parts[0], as: UTF8.self)).flatMap(milliseconds)
  }

  /// Milliseconds since 1970, as a number or as text.
  static func milliseconds(_ kind: JSONValue.Kind) -> Date? {
    switch kind {
    case .integer(let number): milliseconds(number)
    case .real(let number): milliseconds(number)
    case .string(let text): milliseconds(text)
    case .object, .array, .bool, .null: nil
    }
  }

  /// The text form, `2014-06-28 14:47:53 Etc/GMT`.
  ///
  /// Only zones that mean UTC are read. The forms in Pacific time repeat the same moment for people, and in the hour
  /// after summer time they are ambiguous.
  static func text(_ text: String) -> Date? {
    ReceiptDate.parse(etcGMT: text, zones: ["Etc/GMT", "Etc/UTC", "GMT", "UTC"])
      .flatMap { milliseconds($0.millisecondsSince1970) }
  }

  /// A moment of the Gregorian calendar in UTC; `nil` for one that the calendar does not have.
  static func moment(year: Int, month: Int, day: Int, hour: Int, minute: Int, second: Int) -> Date? {
    ReceiptDate.seconds(year: year, month: month, day: day, hour: hour, minute: minute, second: second)
      .flatMap { milliseconds(Int64($0) * 1000) }
  }
}

/// The names of the members that hold one date.
struct AppleDateNames: ExpressibleByStringLiteral, Sendable {
  /// Milliseconds since 1970. If present, the other members are ignored.
  let milliseconds: String
  /// Text; the first is milliseconds in iOS 6-style answers.
  let texts: [String]
  /// The same in Pacific time.
  let pacific: [String]

  init(stringLiteral name: String) {
    milliseconds = name + "_ms"
    texts = [name, name + "_formatted"]
    pacific = [name + "_pst", name + "_formatted_pst"]
  }
}

extension JSONValue {
  /// A moment that Apple writes under several keys: `x_ms`, `x`, `x_formatted`, each also with `_pst`.
  ///
  /// The first that is present counts. `x` alone is text in app receipts and milliseconds in iOS 6-style ones.
  ///
  /// - Returns: `nil` if none is present.
  /// - Throws: `JSONError.unreadable` if one is present and cannot be read, or if only forms in Pacific time are: a
  ///   refund with an unclear date must not become a purchase.
  func date(_ names: AppleDateNames) throws(JSONError) -> Date? {
    if let number = digits(names.milliseconds), let date = AppleDate.milliseconds(number) { return date }
    if let kind = present(names.milliseconds) {
      return try orUnreadable(AppleDate.milliseconds(kind), names.milliseconds)
    }
    for key in names.texts {
      guard let kind = present(key) else { continue }
      if case .string(let text) = kind, let date = AppleDate.text(text) { return date }
      return try orUnreadable(AppleDate.milliseconds(kind), key)
    }
    for key in names.pacific where try text(key) != nil { throw unreadable(key) }
    return nil
  }

  /// A member; `nil` also for `null` and an empty text.
  private func present(_ key: String) -> Kind? {
    switch kind(key) {
    case nil, .null, .string(""): nil
    case let kind: kind
    }
  }

  private func orUnreadable(_ date: Date?, _ key: String) throws(JSONError) -> Date {
    guard let date else { throw unreadable(key) }
    return date
  }
}
