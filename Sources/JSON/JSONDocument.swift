internal import CJansson

/// The kind of the outermost value of a JSON text.
package enum JSONRoot: Hashable, Sendable {
  case object
  /// An object or an array.
  case any
}

/// A parsed JSON text that owns its tree.
///
/// Not `Sendable`: the task that parsed the tree reads it, and copies values out.
package final class JSONDocument {
  /// `json_t *`, the one reference returned by `json_loadb`.
  private let tree: UnsafeMutablePointer<json_t>
  /// The members that may be read; `nil`: all.
  private let selection: JSONSelection?

  /// - Throws: `JSONError.tooLarge` or `.syntax`, which includes a root of another kind.
  convenience init(_ bytes: [UInt8], root: JSONRoot = .object, limits: JSONLimits = JSONLimits()) throws(JSONError) {
    guard bytes.withUnsafeBytes({ limits.admit($0) }) else { throw .tooLarge }
    try self.init(parsing: bytes, root: root, selection: nil)
  }

  /// Parses a condensed text, which is within the limits.
  convenience init(_ condensed: JSONCondenser.Condensed, selection: JSONSelection) throws(JSONError) {
    try self.init(parsing: condensed.bytes, root: .object, selection: selection)
  }

  private init(parsing bytes: [UInt8], root: JSONRoot, selection: JSONSelection?) throws(JSONError) {
    let parsed = bytes.withUnsafeBytes { text -> Result<UnsafeMutablePointer<json_t>, JSONError> in
      guard let start = text.baseAddress else { return .failure(.syntax) }
      // Duplicate keys are refused because readers disagree on which one counts: `{"status":0,"status":21010}`. jansson
      // refuses by default: NUL in strings, bytes after the end, a bare value.
      guard let tree = json_loadb(start, text.count, Int(JSON_REJECT_DUPLICATES), nil) else {
        return .failure(.syntax)
      }
      return .success(tree)
    }
    let tree = try parsed.get()
    guard tree.pointee.type == JSON_OBJECT || (root == .any && tree.pointee.type == JSON_ARRAY) else {
      json_decref(tree)
      throw .syntax
    }
    self.tree = tree
    self.selection = selection
  }

  deinit { json_decref(tree) }

  /// Whether a member may be read. An unselected one is missing from the tree, whatever the text has: reading it is a
  /// bug, which tests have to catch.
  @inline(__always)
  func isSelected(_ key: String) -> Bool { selection?.contains(key) ?? true }

  /// The outermost object or array.
  var root: JSONValue { JSONValue(document: self, node: tree, path: .root) }
}
