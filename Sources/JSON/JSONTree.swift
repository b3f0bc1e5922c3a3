internal import CJansson

/// The parser's tree of any JSON text.
final class JSONTree {
  typealias Node = UnsafeMutablePointer<json_t>

  /// `json_t *`, the one reference returned by `json_loadb`.
  let root: Node

  /// - Throws: `JSONError.tooLarge` or `.syntax`, which includes a root of another kind.
  init(_ bytes: [UInt8], root: JSONRoot, limits: JSONLimits, rejectsDuplicates: Bool = true) throws(JSONError) {
    guard bytes.withUnsafeBytes({ limits.admit($0) }) else { throw .tooLarge }
    let options = rejectsDuplicates ? JSON_REJECT_DUPLICATES : 0
    guard let tree = bytes.withUnsafeBytes({ Self.parse($0, options: Int(options)) }) else { throw .syntax }
    guard tree.pointee.type == JSON_OBJECT || (root == .any && tree.pointee.type == JSON_ARRAY) else {
      json_decref(tree)
      throw .syntax
    }
    self.root = tree
  }

  deinit { json_decref(root) }

  /// Duplicate keys are refused because readers disagree on which one counts: `{"status":0,"status":21010}`. jansson
  /// refuses by default: NUL in strings, bytes after the end, a bare value.
  private static func parse(_ text: UnsafeRawBufferPointer, options: Int) -> Node? {
    text.baseAddress.flatMap { json_loadb($0, text.count, options, nil) }
  }

  /// The value of one text or number by itself.
  static func value(of text: UnsafeRawBufferPointer) -> JSONValue.Kind? {
    guard let node = parse(text, options: Int(JSON_DECODE_ANY)) else { return nil }
    defer { json_decref(node) }
    return kind(of: node)
  }

  static func kind(of node: Node) -> JSONValue.Kind {
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

  static func member(_ key: String, of node: Node) -> Node? {
    // A `String` passed as an argument would be copied to the heap each time.
    key.withCString { json_object_get(node, $0) }
  }

  /// The elements of an array.
  static func elements(of node: Node) -> [Node] { (0..<json_array_size(node)).compactMap { json_array_get(node, $0) } }

  /// The number of items of a container.
  static func count(of node: Node) -> Int {
    node.pointee.type == JSON_OBJECT ? json_object_size(node) : json_array_size(node)
  }
}
