/// Why bytes are not the JSON that was expected.
///
/// It names places, never values: what stands there may be a receipt or a secret.
package enum JSONError: Error, Hashable, Sendable {
  /// Not one whole JSON text of the kind that is expected: empty, HTML, cut short, a duplicate key, a NUL, a number out of range, bytes after the end.
  case syntax
  /// More bytes, values or nesting than any answer needs.
  case tooLarge
  /// Something that has to be there is not.
  case missing(path: String)
  /// It is there and cannot be read as what it has to be. Malformed is not absent.
  case unreadable(path: String)
}

/// The place of a value in its document, built link by link and spelled out only for an error.
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
