/// One value of a text that was read. It keeps the document alive.
package struct JSONValue {
  package enum Kind {
    case object, array
    case string(String)
    case integer(Int64)
    case real(Double)
    case bool(Bool)
    case null
  }

  enum Node {
    case entry(Int, in: JSONIndex)
    case tree(JSONTree.Node, in: JSONTree)

    var kind: Kind {
      switch self {
      case .entry(let place, let index): index.kind(of: place)
      case .tree(let node, _): JSONTree.kind(of: node)
      }
    }

    /// Without computing the value.
    var isNull: Bool {
      switch self {
      case .entry(let place, let index): index.entries[place].kind == .null
      case .tree(let node, _): if case .null = JSONTree.kind(of: node) { true } else { false }
      }
    }

    func member(_ key: String) -> Node? {
      switch self {
      case .entry(let place, let index): index.member(key, of: place).map { .entry($0, in: index) }
      case .tree(let node, let tree): JSONTree.member(key, of: node).map { .tree($0, in: tree) }
      }
    }
  }

  private let node: Node
  package let path: JSONPath

  init(node: Node, path: JSONPath) {
    self.node = node
    self.path = path
  }

  /// The value; a container without its contents.
  package var kind: Kind { node.kind }

  package var isObject: Bool { if case .object = kind { true } else { false } }
  package var isArray: Bool { if case .array = kind { true } else { false } }

  /// Whether it is an empty container.
  package var isEmptyContainer: Bool {
    switch (kind, node) {
    case (.object, .entry(let place, let index)), (.array, .entry(let place, let index)):
      index.entries[place].count == 0
    case (.object, .tree(let node, _)), (.array, .tree(let node, _)): JSONTree.count(of: node) == 0
    default: false
    }
  }

  /// The value of a member; `nil` if it is absent or `null`.
  package subscript(key: String) -> JSONValue? {
    guard let found = node.member(key), !found.isNull else { return nil }
    return JSONValue(node: found, path: .key(key, in: path))
  }

  /// The kind of a member's value; `nil` if it is absent or `null`.
  ///
  /// Equivalent to `self[key]?.kind`, without creating a value and its path, which most members need only for an error.
  package func kind(_ key: String) -> Kind? {
    switch node.member(key)?.kind {
    case .null: nil
    case let kind: kind
    }
  }

  /// Whether an object has a key, with any value.
  package func has(_ key: String) -> Bool { node.member(key) != nil }

  /// The elements of an array; empty for anything else.
  package var elements: [JSONValue] {
    let nodes: [Node] =
      switch node {
      case .entry(let place, let index): index.elements(of: place).map { .entry($0, in: index) }
      case .tree(let node, let tree): JSONTree.elements(of: node).map { .tree($0, in: tree) }
      }
    return nodes.enumerated().map { JSONValue(node: $1, path: .index($0, in: path)) }
  }

  /// The error for a malformed member.
  package func unreadable(_ key: String) -> JSONError { .unreadable(path: JSONPath.key(key, in: path).text) }

  /// The error for a missing required member.
  package func missing(_ key: String) -> JSONError { .missing(path: JSONPath.key(key, in: path).text) }
}
