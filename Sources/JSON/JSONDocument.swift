/// A JSON text that was read: in one pass, or by the parser if it is not plain.
///
/// Not `Sendable`: the task that read the text copies values out.
package struct JSONDocument {
  /// The outermost object or array.
  let root: JSONValue

  /// - Throws: `JSONError.tooLarge` or `.syntax`, which includes a root of another kind.
  init(_ bytes: [UInt8], root: JSONRoot = .object, limits: JSONLimits = JSONLimits()) throws(JSONError) {
    if let plain = JSONDocument(plain: bytes, root: root, limits: limits) {
      self = plain
    } else {
      try self.init(parsing: bytes, root: root, limits: limits)
    }
  }

  /// - Returns: `nil` for a text that the parser has to read.
  init?(plain bytes: [UInt8], root: JSONRoot, limits: JSONLimits) {
    guard let index = JSONIndex(bytes, root: root, limits: limits) else { return nil }
    self.init(index)
  }

  /// Any text, by the parser.
  init(parsing bytes: [UInt8], root: JSONRoot = .object, limits: JSONLimits = JSONLimits()) throws(JSONError) {
    self.init(try JSONTree.index(of: bytes, root: root, limits: limits))
  }

  init(_ index: JSONIndex) { root = JSONValue(index: index, place: index.root) }
}

/// The kind of the outermost value of a JSON text.
package enum JSONRoot: Hashable, Sendable {
  case object
  /// An object or an array.
  case any
}
