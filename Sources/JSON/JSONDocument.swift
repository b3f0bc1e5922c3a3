internal import CJansson

/// What the whole of a JSON text has to be.
package enum JSONRoot: Hashable, Sendable {
  case object
  /// An object or an array.
  case any
}

/// A parsed JSON text and everything in it, owned: the tree lives as long as this does.
///
/// It is not `Sendable`; a tree is read by the task that parsed it, and values are copied out of it.
package final class JSONDocument {
  /// `json_t *`, the one reference that `json_loadb` hands out.
  private let tree: UnsafeMutablePointer<json_t>
  /// The members that may be looked at; `nil`: all.
  private let selection: JSONSelection?

  /// - Throws: `JSONError.tooLarge` or `.syntax`, the latter also for a root of another kind.
  convenience init(_ bytes: [UInt8], root: JSONRoot = .object, limits: JSONLimits = JSONLimits()) throws(JSONError) {
    guard bytes.withUnsafeBytes({ limits.admit($0) }) else { throw .tooLarge }
    try self.init(parsing: bytes, root: root, selection: nil)
  }

  /// What was kept of a text that is within the limits.
  convenience init(_ condensed: JSONCondenser.Condensed, selection: JSONSelection) throws(JSONError) {
    try self.init(parsing: condensed.bytes, root: .object, selection: selection)
  }

  private init(parsing bytes: [UInt8], root: JSONRoot, selection: JSONSelection?) throws(JSONError) {
    let parsed = bytes.withUnsafeBytes { text -> Result<UnsafeMutablePointer<json_t>, JSONError> in
      guard let start = text.baseAddress else { return .failure(.syntax) }
      // Duplicate keys are refused because readers disagree on which one counts: `{"status":0,"status":21010}`.
      // What is not asked for is refused by default: NUL in strings, bytes after the end, a bare value.
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

  /// Whether a member is there to be looked at. One that was not selected is missing from the tree, whatever the text
  /// has: to look for it is a mistake, which the tests must not survive.
  @inline(__always)
  func isSelected(_ key: String) -> Bool { selection?.contains(key) ?? true }

  /// The object or array itself.
  var root: JSONValue { JSONValue(document: self, node: tree, path: .root) }
}
