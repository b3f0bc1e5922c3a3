internal import CJansson
internal import Glibc

/// The parser. It reads any JSON text, and decides what is one.
enum JSONTree {
  private typealias Node = UnsafeMutablePointer<json_t>

  /// - Throws: `JSONError.tooLarge` or `.syntax`, which includes a root of another kind.
  static func index(
    of bytes: [UInt8], root: JSONRoot, limits: JSONLimits, rejectsDuplicates: Bool = true
  ) throws(JSONError) -> JSONIndex {
    guard bytes.withUnsafeBytes({ limits.admit($0) }) else { throw .tooLarge }
    let options = rejectsDuplicates ? JSON_REJECT_DUPLICATES : 0
    guard let tree = bytes.withUnsafeBytes({ parse($0, options: Int(options)) }) else { throw .syntax }
    defer { json_decref(tree) }
    guard tree.pointee.type == JSON_OBJECT || (root == .any && tree.pointee.type == JSON_ARRAY) else { throw .syntax }
    var walk = Walk()
    walk.entries.append(walk.entry(of: tree))
    return JSONIndex(bytes: walk.bytes, entries: walk.entries, names: walk.names)
  }

  /// Duplicate keys are refused because readers disagree on which one counts: `{"status":0,"status":21010}`. jansson
  /// refuses by default: NUL in strings, bytes after the end, a bare value.
  private static func parse(_ text: UnsafeRawBufferPointer, options: Int) -> Node? {
    text.baseAddress.flatMap { json_loadb($0, text.count, options, nil) }
  }

  /// The value of one text or number by itself; `nil` if the parser refuses it.
  static func value(of text: UnsafeRawBufferPointer) -> JSONValue.Kind? {
    guard let node = parse(text, options: Int(JSON_DECODE_ANY)) else { return nil }
    defer { json_decref(node) }
    switch node.pointee.type {
    case JSON_STRING: return .string(String(decoding: self.text(of: node), as: UTF8.self))
    case JSON_INTEGER: return .integer(Int64(json_integer_value(node)))
    case JSON_REAL: return .real(json_real_value(node))
    default: return nil
    }
  }

  /// The parser has validated the UTF-8.
  private static func text(of node: Node) -> UnsafeRawBufferPointer {
    UnsafeRawBufferPointer(start: json_string_value(node), count: json_string_length(node))
  }

  /// Puts the values of a tree into the form of an index, over bytes of its own.
  private struct Walk {
    var bytes: [UInt8] = []
    var entries: [JSONIndex.Entry] = []
    var names: [JSONIndex.Name] = []

    /// The tree is as deep as the limits allow.
    mutating func entry(of node: Node) -> JSONIndex.Entry {
      switch node.pointee.type {
      case JSON_OBJECT:
        var items: [JSONIndex.Entry] = []
        var names: [JSONIndex.Name] = []
        var member = json_object_iter(node)
        while let here = member, let key = json_object_iter_key(here), let value = json_object_iter_value(here) {
          let name = place(UnsafeRawBufferPointer(start: key, count: strlen(key)))
          names.append(JSONIndex.Name(start: name.start, count: name.count))
          items.append(entry(of: value))
          member = json_object_iter_next(node, here)
        }
        self.names += names
        return close(.object, items, names: self.names.count - names.count)
      case JSON_ARRAY:
        var items: [JSONIndex.Entry] = []
        for number in 0..<json_array_size(node) {
          if let item = json_array_get(node, number) { items.append(entry(of: item)) }
        }
        return close(.array, items)
      case JSON_STRING:
        let text = place(JSONTree.text(of: node))
        return JSONIndex.Entry(kind: .text, start: text.start, count: text.count)
      case JSON_INTEGER: return number("\(json_integer_value(node))", .integer)
      case JSON_REAL: return number("\(json_real_value(node))", .unread)
      case JSON_TRUE: return JSONIndex.Entry(kind: .yes)
      case JSON_FALSE: return JSONIndex.Entry(kind: .no)
      default: return JSONIndex.Entry(kind: .null)
      }
    }

    private mutating func close(
      _ kind: JSONIndex.Kind, _ items: [JSONIndex.Entry], names: Int = 0
    ) -> JSONIndex.Entry {
      defer { entries += items }
      return JSONIndex.Entry(
        kind: kind, start: UInt32(truncatingIfNeeded: entries.count), count: UInt32(truncatingIfNeeded: items.count),
        names: UInt32(truncatingIfNeeded: names))
    }

    private mutating func number(_ text: String, _ kind: JSONIndex.Kind) -> JSONIndex.Entry {
      var text = text
      let name = text.withUTF8 { place(UnsafeRawBufferPointer($0)) }
      return JSONIndex.Entry(kind: kind, start: name.start, count: name.count)
    }

    private mutating func place(_ text: UnsafeRawBufferPointer) -> JSONIndex.Name {
      defer { bytes.append(contentsOf: text) }
      return JSONIndex.Name(
        start: UInt32(truncatingIfNeeded: bytes.count), count: UInt32(truncatingIfNeeded: text.count))
    }
  }
}
