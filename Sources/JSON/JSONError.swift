/// Why bytes are not the expected JSON.
///
/// It names places, never values, which may be a receipt or a secret.
package enum JSONError: Error, Hashable, Sendable {
  /// Not one complete JSON text of the expected kind: empty, HTML, truncated, a duplicate key, a NUL, a number out of
  /// range, or bytes after the end.
  case syntax
  /// More bytes, values or nesting than any response needs.
  case tooLarge
  case missing(path: String)
  /// A value has the wrong form. Malformed is not absent.
  case unreadable(path: String)
}
