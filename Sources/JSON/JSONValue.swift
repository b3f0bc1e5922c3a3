/// One value of a text that was read. It keeps the document alive.
package struct JSONValue {
  package enum Kind {
    case object, array
    case string(String)
    case integer(Int64)
    case real(Double)
    case bool(Bool)
    case null
  }

  let index: JSONIndex
  let place: Int

  /// The value; a container without its contents.
  package var kind: Kind { index.kind(of: place) }

  package var isObject: Bool { index.entries[place].kind == .object }
  package var isArray: Bool { index.entries[place].kind == .array }

  /// The text; `nil` for any other value.
  package var string: String? { if case .string(let text) = kind { text } else { nil } }

  package var isEmptyContainer: Bool { index.entries[place].isContainer && index.entries[place].count == 0 }

  /// The way from the root, for example `receipt.in_app[3].expires_date_ms`; empty for the root.
  package var path: String { index.path(of: place) }

  /// The value of a member; `nil` if it is absent or `null`.
  package subscript(key: String) -> JSONValue? {
    guard let found = index.member(key, of: place), index.entries[found].kind != .null else { return nil }
    return JSONValue(index: index, place: found)
  }

  /// The kind of a member's value; `nil` if it is absent or `null`.
  package func kind(_ key: String) -> Kind? {
    guard let found = index.member(key, of: place), index.entries[found].kind != .null else { return nil }
    return index.kind(of: found)
  }

  /// The value of a member that is an integer, or a text of at most 18 digits behind a minus, if there is one; `nil` for
  /// any other.
  package func digits(_ key: String) -> Int64? { index.member(key, of: place).flatMap(index.digits) }

  /// Whether an object has a key, with any value.
  package func has(_ key: String) -> Bool { index.member(key, of: place) != nil }

  package var elements: [JSONValue] { index.elements(of: place).map { JSONValue(index: index, place: $0) } }

  package func unreadable(_ key: String) -> JSONError { .unreadable(path: path(of: key)) }

  package func missing(_ key: String) -> JSONError { .missing(path: path(of: key)) }

  private func path(of key: String) -> String { path.isEmpty ? key : "\(path).\(key)" }
}
