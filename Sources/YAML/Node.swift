/// A value in a YAML document: text, a list, or a mapping.
package struct Node: Sendable {
  package struct Scalar: Hashable, Sendable {
    package let string: String
    /// Without quotes and not in a block, so that a reader may take it for `null` or a number.
    package let isPlain: Bool
  }

  /// In the order of the document. Keys are unique, and may be any value.
  package typealias Mapping = [(key: Node, value: Node)]

  package enum Content: Sendable {
    case scalar(Scalar)
    case sequence([Node])
    case mapping(Mapping)
  }

  package let content: Content
  /// The line on which it begins, from 1. That of an alias is the line of the value that it names.
  package let line: Int

  package var scalar: Scalar? {
    if case .scalar(let scalar) = content { scalar } else { nil }
  }

  package var sequence: [Node]? {
    if case .sequence(let items) = content { items } else { nil }
  }

  package var mapping: Mapping? {
    if case .mapping(let members) = content { members } else { nil }
  }
}

/// Why a text is refused. Only keys of the text are quoted.
package enum YAMLError: Error, Hashable {
  /// A character that YAML forbids, such as a control character.
  case text(problem: String)
  /// A line and a column, from 1, and libyaml's words.
  case syntax(line: Int, column: Int, problem: String)
  /// Sorted, with the line of the first.
  case duplicateKeys([String], line: Int)
  case outOfMemory
}
