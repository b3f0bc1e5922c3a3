import JSON

import struct FoundationEssentials.Date

/// Members of an object, read as Apple writes them: numbers as text and text as numbers, booleans in four spellings, an
/// empty text for an absent value, one object instead of a list.
///
/// Each accessor returns `nil` for an absent value (no key, `null`, an empty text) and throws `JSONError.unreadable`
/// for an invalid one.
extension JSONValue {
  /// Text, or an integer as text: transaction IDs come as both.
  func text(_ key: String) throws(JSONError) -> String? {
    switch kind(key) {
    case nil, .null: return nil
    case .string(let text): return text.isEmpty ? nil : text
    case .integer(let number): return String(number)
    case .object, .array, .real, .bool: throw unreadable(key)
    }
  }

  /// A whole number, or text of one. Exact to 64 bits; a fraction is refused.
  func integer(_ key: String) throws(JSONError) -> Int64? {
    if let number = digits(key) { return number }
    switch kind(key) {
    case nil, .null: return nil
    case .integer(let number): return number
    case .string(let text):
      if text.isEmpty { return nil }
      guard let number = Int64(decimal: text) else { throw unreadable(key) }
      return number
    case .object, .array, .real, .bool: throw unreadable(key)
    }
  }

  /// A number that stands for a state (`"0"`, `1`, `true`, `"false"`). States that Apple adds are kept.
  func state(_ key: String) throws(JSONError) -> Int? {
    switch kind(key) {
    case nil: return nil
    case .bool(let flag): return flag ? 1 : 0
    case .string("true"): return 1
    case .string("false"): return 0
    default: break
    }
    guard let number = try integer(key) else { return nil }
    guard let state = Int(exactly: number) else { throw unreadable(key) }
    return state
  }

  /// A boolean: `true`, `"true"`, `"1"` or `1`, and their opposites.
  func flag(_ key: String) throws(JSONError) -> Bool? {
    switch try state(key) {
    case nil: return nil
    case 0: return false
    case 1: return true
    default: throw unreadable(key)
    }
  }

  func object(_ key: String) throws(JSONError) -> JSONValue? {
    guard let value = self[key] else { return nil }
    guard value.isObject else { throw unreadable(key) }
    return value
  }

  /// A list of objects; a lone object counts as a list of one, an empty object as a list of none.
  func objects(_ key: String) throws(JSONError) -> [JSONValue]? {
    guard let value = self[key] else { return nil }
    if value.isObject { return value.isEmptyContainer ? [] : [value] }
    guard value.isArray else { throw unreadable(key) }
    let elements = value.elements
    for element in elements where !element.isObject { throw .unreadable(path: element.path) }
    return elements
  }
}

extension Bool {
  /// A state that is 1 or 0; `nil` for any other, and for none.
  init?(state: Int?) {
    guard let state, state == 0 || state == 1 else { return nil }
    self = state == 1
  }
}

extension Int64 {
  /// Digits with an optional minus; unlike `Int64(_:)`, no plus.
  init?(decimal text: String) {
    guard text.utf8.first != UInt8(ascii: "+"), let number = Int64(text) else { return nil }
    self = number
  }
}

/// Members as signed data writes them: moments in milliseconds, numbers as `1.0`.
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

  func required(_ key: String) throws(JSONError) -> String {
    guard let text = try text(key) else { throw missing(key) }
    return text
  }

  func requiredMoment(_ key: String) throws(JSONError) -> Date {
    guard let moment = try moment(key) else { throw missing(key) }
    return moment
  }
}
