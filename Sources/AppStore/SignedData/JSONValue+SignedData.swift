import JSON

import struct FoundationEssentials.Date

/// Members as signed data writes them, beside those of `JSONValue+Tolerant`.
extension JSONValue {
  /// A moment in milliseconds since 1970. Xcode writes fractions.
  ///
  /// - Throws: `JSONError.unreadable` for anything else but `null`, also an empty text.
  func moment(_ key: String) throws(JSONError) -> Date? {
    guard let kind = kind(key) else { return nil }
    guard let date = AppleDate.milliseconds(kind) else { throw unreadable(key) }
    return date
  }

  /// A whole number, which may be written as `1.0`.
  func number(_ key: String) throws(JSONError) -> Int64? {
    guard case .real(let real)? = kind(key) else { return try integer(key) }
    guard let number = Int64(exactly: real) else { throw unreadable(key) }
    return number
  }

  /// A number that stands for a state, as `state(_:)` reads it; it may be written as `1.0`.
  func code(_ key: String) throws(JSONError) -> Int? {
    guard case .real? = kind(key) else { return try state(key) }
    guard let number = try number(key), let code = Int(exactly: number) else { throw unreadable(key) }
    return code
  }

  /// A required text.
  func required(_ key: String) throws(JSONError) -> String {
    guard let text = try text(key) else { throw missing(key) }
    return text
  }

  /// A required moment.
  func requiredMoment(_ key: String) throws(JSONError) -> Date {
    guard let moment = try moment(key) else { throw missing(key) }
    return moment
  }
}
