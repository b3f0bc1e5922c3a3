/// Why bytes are not the expected JSON.
///
/// It names places, never values, which may be a receipt or a secret.
package enum JSONError: Error, Hashable, Sendable {
  /// Not one complete JSON text of the expected kind: empty, HTML, truncated, a duplicate key, a NUL, a number out of
  /// range, or bytes after the end.
  case syntax
  /// More bytes, values or nesting than any response needs.
  case tooLarge
  /// A required value is missing.
  case missing(path: String)
  /// A value has the wrong form. Malformed is not absent.
  case unreadable(path: String)
}

/// The place of a value in its document, built link by link and formatted only for an error.
package indirect enum JSONPath: Sendable {
  case root
  case key(String, in: JSONPath)
  case index(Int, in: JSONPath)

  /// For example `receipt.in_app[3].expires_date_ms`.
  package var text: String {
    switch self {
    case .root: ""
    case .key(let key, in: .root): key
    case .key(let key, in: let parent): "\(parent.text).\(key)"
    case .index(let index, in: let parent): "\(parent.text)[\(index)]"
    }
  }
}
