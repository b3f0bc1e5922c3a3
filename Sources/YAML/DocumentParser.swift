internal import CYAML

extension Node {
  /// The most levels of nesting: the parser is recursive.
  package static let depthLimit = 100

  /// Reads a text with one document (YAML 1.1, as libyaml reads it).
  ///
  /// An alias stands for the value that it names; a merge key (`<<`) is a plain key. A short text of aliases may stand for very
  /// many values: the caller limits the size of the text and the number of its asterisks.
  ///
  /// - Parameter text: in UTF-8.
  /// - Returns: `nil` for a text without a document.
  package static func document(in text: [UInt8]) throws(YAMLError) -> Node? {
    try text.withUnsafeBufferPointer { buffer throws(YAMLError) in
      let parser = try DocumentParser(buffer)
      return try parser.singleDocument()
    }
  }
}

/// A parsing event of libyaml's.
private struct Event {
  enum Kind {
    case streamStart, streamEnd, documentStart, documentEnd, sequenceEnd, mappingEnd, none
    case alias(String)
    case scalar(Node.Scalar)
    case sequenceStart, mappingStart
  }

  var kind: Kind
  var line: Int
  var column: Int
  /// The name by which aliases mean this value.
  var anchor: String?

  init(_ event: yaml_event_t) {
    // libyaml counts from 0.
    line = event.start_mark.line + 1
    column = event.start_mark.column + 1
    switch event.type {
    case YAML_STREAM_START_EVENT: kind = .streamStart
    case YAML_STREAM_END_EVENT: kind = .streamEnd
    case YAML_DOCUMENT_START_EVENT: kind = .documentStart
    case YAML_DOCUMENT_END_EVENT: kind = .documentEnd
    case YAML_SEQUENCE_END_EVENT: kind = .sequenceEnd
    case YAML_MAPPING_END_EVENT: kind = .mappingEnd
    case YAML_ALIAS_EVENT: kind = .alias(Self.text(event.data.alias.anchor) ?? "")
    case YAML_SCALAR_EVENT:
      let scalar = event.data.scalar
      // A scalar may contain NUL.
      let bytes = UnsafeBufferPointer(start: scalar.value, count: scalar.length)
      kind = .scalar(
        Node.Scalar(
          string: String(decoding: bytes, as: UTF8.self), isPlain: scalar.style == YAML_PLAIN_SCALAR_STYLE))
      anchor = Self.text(scalar.anchor)
    case YAML_SEQUENCE_START_EVENT:
      kind = .sequenceStart
      anchor = Self.text(event.data.sequence_start.anchor)
    case YAML_MAPPING_START_EVENT:
      kind = .mappingStart
      anchor = Self.text(event.data.mapping_start.anchor)
    default: kind = .none
    }
  }

  private static func text(_ bytes: UnsafeMutablePointer<yaml_char_t>?) -> String? { bytes.map { String(cString: $0) } }
}

/// Owns a `yaml_parser_t`. The text has to outlive it.
private final class DocumentParser {
  private let parser = UnsafeMutablePointer<yaml_parser_t>.allocate(capacity: 1)
  /// The values that aliases may name; of one name the latest.
  private var anchors: [String: Node] = [:]

  init(_ text: UnsafeBufferPointer<UInt8>) throws(YAMLError) {
    parser.initialize(to: yaml_parser_t())
    guard yaml_parser_initialize(parser) == 1 else { throw .outOfMemory }
    yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING)
    yaml_parser_set_input_string(parser, text.baseAddress, text.count)
  }

  deinit {
    // libyaml accepts a parser that was not initialized.
    yaml_parser_delete(parser)
    parser.deallocate()
  }

  func singleDocument() throws(YAMLError) -> Node? {
    _ = try next()
    guard case .documentStart = try next().kind else { return nil }
    let root = try node(from: try next(), depth: 0)
    _ = try next()
    let end = try next()
    guard case .streamEnd = end.kind else {
      throw .syntax(
        line: end.line, column: end.column,
        problem: "expected a single document in the stream, but found another document")
    }
    return root
  }

  private func next() throws(YAMLError) -> Event {
    var event = yaml_event_t()
    guard yaml_parser_parse(parser, &event) == 1 else { throw error() }
    defer { yaml_event_delete(&event) }
    return Event(event)
  }

  private func error() -> YAMLError {
    let problem = parser.pointee.problem.map { String(cString: $0) } ?? ""
    switch parser.pointee.error {
    case YAML_READER_ERROR: return .text(problem: problem)
    case YAML_SCANNER_ERROR, YAML_PARSER_ERROR:
      let mark = parser.pointee.problem_mark
      return .syntax(line: mark.line + 1, column: mark.column + 1, problem: problem)
    default: return .outOfMemory
    }
  }

  private func node(from event: Event, depth: Int) throws(YAMLError) -> Node {
    guard depth < Node.depthLimit else {
      throw .syntax(line: event.line, column: event.column, problem: "more than \(Node.depthLimit) levels")
    }
    let content: Node.Content
    switch event.kind {
    case .alias(let name):
      guard let node = anchors[name] else {
        throw .syntax(line: event.line, column: event.column, problem: "found undefined alias")
      }
      return node
    case .scalar(let scalar): content = .scalar(scalar)
    case .sequenceStart: content = .sequence(try items(depth: depth))
    case .mappingStart: content = .mapping(try members(depth: depth))
    default: throw .syntax(line: event.line, column: event.column, problem: "expected a value")
    }
    let node = Node(content: content, line: event.line)
    // Only now: a value cannot contain itself.
    if let anchor = event.anchor { anchors[anchor] = node }
    return node
  }

  private func items(depth: Int) throws(YAMLError) -> [Node] {
    var items: [Node] = []
    while true {
      let event = try next()
      if case .sequenceEnd = event.kind { return items }
      items.append(try node(from: event, depth: depth + 1))
    }
  }

  private func members(depth: Int) throws(YAMLError) -> Node.Mapping {
    var members: Node.Mapping = []
    /// The lines of the keys that are text.
    var lines: [String: Int] = [:]
    var duplicates: Set<String> = []
    while true {
      let event = try next()
      if case .mappingEnd = event.kind { break }
      let key = try node(from: event, depth: depth + 1)
      if let name = key.scalar?.string {
        if lines[name] == nil { lines[name] = key.line } else { duplicates.insert(name) }
      }
      members.append((key, try node(from: try next(), depth: depth + 1)))
    }
    if let first = duplicates.min(), let line = lines[first] { throw .duplicateKeys(duplicates.sorted(), line: line) }
    return members
  }
}
