import JSON

/// Members of an object, read the way Apple writes them: numbers as text and text as numbers, booleans in four
/// spellings, an empty text where there is nothing, one object where there should be a list.
///
/// Each accessor returns `nil` for what is absent (no key, `null`, an empty text) and throws `JSONError.unreadable` for
/// what is there and makes no sense.
extension JSONValue {
  /// Text, or an integer spelled out: transaction IDs come as both.
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

  /// A number that stands for one of several states (`"0"`, `1`, `true`, `"false"`), as a number: states that Apple
  /// adds are kept.
  func state(_ key: String) throws(JSONError) -> Int? {
    switch kind(key) {
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

  /// An object under a key.
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
    for element in elements where !element.isObject { throw .unreadable(path: element.path.text) }
    return elements
  }
}

extension Int64 {
  /// Digits with an optional minus; unlike `Int64(_:)`, no plus.
  init?(decimal text: String) {
    guard text.utf8.first != UInt8(ascii: "+"), let number = Int64(text) else { return nil }
    self = number
  }
}
