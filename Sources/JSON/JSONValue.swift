package import CJansson

/// One value of a document, borrowed: it keeps the document alive and frees nothing.
package struct JSONValue {
  package enum Kind {
    case object
    case array
    case string(String)
    case integer(Int64)
    case real(Double)
    case bool(Bool)
    case null
  }

  private let document: JSONDocument
  /// `json_t *`, owned by the document.
  private let node: UnsafeMutablePointer<json_t>
  package let path: JSONPath

  package init(document: JSONDocument, node: UnsafeMutablePointer<json_t>, path: JSONPath) {
    self.document = document
    self.node = node
    self.path = path
  }

  /// The value; a container without its contents.
  package var kind: Kind { Self.kind(of: node) }

  private static func kind(of node: UnsafeMutablePointer<json_t>) -> Kind {
    switch node.pointee.type {
    case JSON_OBJECT: return .object
    case JSON_ARRAY: return .array
    case JSON_STRING:
      guard let start = json_string_value(node) else { return .null }
      // The parser has validated the UTF-8.
      let text = UnsafeRawBufferPointer(start: start, count: json_string_length(node))
      return .string(String(decoding: text, as: UTF8.self))
    case JSON_INTEGER: return .integer(Int64(json_integer_value(node)))
    case JSON_REAL: return .real(json_real_value(node))
    case JSON_TRUE: return .bool(true)
    case JSON_FALSE: return .bool(false)
    default: return .null
    }
  }

  package var isObject: Bool { node.pointee.type == JSON_OBJECT }
  package var isArray: Bool { node.pointee.type == JSON_ARRAY }
  package var isNull: Bool { node.pointee.type == JSON_NULL }

  /// Whether it is an empty container.
  package var isEmptyContainer: Bool {
    switch node.pointee.type {
    case JSON_OBJECT: json_object_size(node) == 0
    case JSON_ARRAY: json_array_size(node) == 0
    default: false
    }
  }

  /// The value of a member; `nil` if it is absent or `null`.
  package subscript(key: String) -> JSONValue? {
    guard let found = member(key), found.pointee.type != JSON_NULL else { return nil }
    return JSONValue(document: document, node: found, path: .key(key, in: path))
  }

  /// The kind of a member's value; `nil` if it is absent or `null`.
  ///
  /// Equivalent to `self[key]?.kind`, without creating a value and its path, which most members need only for an error.
  package func kind(_ key: String) -> Kind? {
    guard let found = member(key), found.pointee.type != JSON_NULL else { return nil }
    return Self.kind(of: found)
  }

  /// Whether an object has a key, with any value.
  package func has(_ key: String) -> Bool { member(key) != nil }

  private func member(_ key: String) -> UnsafeMutablePointer<json_t>? {
    assert(document.isSelected(key), "\(key) is looked at and not selected")
    // A `String` passed as an argument would be copied to the heap each time.
    return key.withCString { json_object_get(node, $0) }
  }

  /// The elements of an array; empty for anything else.
  package var elements: [JSONValue] {
    (0..<json_array_size(node)).compactMap { index in
      json_array_get(node, index).map { JSONValue(document: document, node: $0, path: .index(index, in: path)) }
    }
  }

  /// The error for a malformed member.
  package func unreadable(_ key: String) -> JSONError { .unreadable(path: JSONPath.key(key, in: path).text) }

  /// The error for a missing required member.
  package func missing(_ key: String) -> JSONError { .missing(path: JSONPath.key(key, in: path).text) }
}
