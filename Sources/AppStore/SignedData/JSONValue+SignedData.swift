import JSON

import struct FoundationEssentials.Date

/// Members as signed data writes them. The rest is read as `JSONValue+Tolerant` does.
extension JSONValue {
  /// A moment in milliseconds since 1970. Xcode writes fractions.
  ///
  /// - Throws: `JSONError.unreadable` for anything that is there and is no such moment, an empty text included.
  func moment(_ key: String) throws(JSONError) -> Date? {
    let date: Date?
    switch kind(key) {
    case nil, .null: return nil
    case .integer(let number): date = AppleDate.milliseconds(number)
    case .real(let number): date = AppleDate.milliseconds(number)
    case .string(let text): date = AppleDate.milliseconds(text)
    case .object, .array, .bool: date = nil
    }
    guard let date else { throw unreadable(key) }
    return date
  }

  /// A whole number, which may be written as `1.0`.
  func number(_ key: String) throws(JSONError) -> Int64? {
    guard case .real(let real)? = kind(key) else { return try integer(key) }
    guard let number = Int64(exactly: real) else { throw unreadable(key) }
    return number
  }

  /// A number that stands for one of several states, as `state(_:)` reads it, which may be written as `1.0`.
  func code(_ key: String) throws(JSONError) -> Int? {
    guard case .real? = kind(key) else { return try state(key) }
    guard let number = try number(key), let code = Int(exactly: number) else { throw unreadable(key) }
    return code
  }

  /// Text that has to be there.
  func required(_ key: String) throws(JSONError) -> String {
    guard let text = try text(key) else { throw missing(key) }
    return text
  }

  /// A moment that has to be there.
  func requiredMoment(_ key: String) throws(JSONError) -> Date {
    guard let moment = try moment(key) else { throw missing(key) }
    return moment
  }
}
