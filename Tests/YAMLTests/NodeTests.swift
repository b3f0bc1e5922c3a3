import Testing

@testable import YAML

@Suite struct NodeTests {
  private func document(_ text: String) throws -> Node? { try Node.document(in: Array(text.utf8)) }

  private func error(_ text: String) -> YAMLError? {
    do throws(YAMLError) { _ = try Node.document(in: Array(text.utf8)) } catch { return error }
    return nil
  }

  /// A node on one line, with quotes around what had them.
  private func rendered(_ node: Node) -> String {
    switch node.content {
    case .scalar(let scalar): scalar.isPlain ? scalar.string : "'\(scalar.string)'"
    case .sequence(let items): "[\(items.map(rendered).joined(separator: ", "))]"
    case .mapping(let members):
      "{\(members.map { "\(rendered($0.key)): \(rendered($0.value))" }.joined(separator: ", "))}"
    }
  }

  @Test(arguments: [
    ("a: 1\nb: [x, 'y', \"z\\u00e9\"]\n", "{a: 1, b: [x, 'y', 'zé']}"),
    ("- a\n-\n- {b: , c: ~}\n- null", "[a, , {b: , c: ~}, null]"),
    ("a: |\n  one\n  two\nb: >\n  one\n  two\n", "{a: 'one\ntwo\n', b: 'one two\n'}"),
    ("---\na: 1\n...\n", "{a: 1}"), ("---", ""), ("word", "word"), ("\"a\\0b\"", "'a\0b'"),
    // A value by its name, the latest of two; merge keys are keys.
    ("a: &x [1]\nb: *x\nc: &x 2\nd: *x", "{a: [1], b: [1], c: 2, d: 2}"),
    ("a: &x {b: 1}\nc: {<<: *x, d: 2}", "{a: {b: 1}, c: {<<: {b: 1}, d: 2}}"),
    ("? [a, b]\n: c\n? {d: e}\n: f", "{[a, b]: c, {d: e}: f}"),
    ("!!str 1: !own 2", "{1: 2}"), ("a: 1\r\nb: 2\r\n", "{a: 1, b: 2}"),
  ])
  func `a document is a tree`(text: String, tree: String) throws {
    #expect(rendered(try #require(try document(text))) == tree)
  }

  @Test(arguments: ["", "\n\n", "# a comment\n", "  "]) func `a text without a document has no root`(text: String)
    throws
  {
    #expect(try document(text) == nil)
  }

  @Test func `lines count from one, and an alias has that of its value`() throws {
    let root = try #require(try document("# first\na: &x\n  - b\n  - c: d\ne: *x\n"))
    let members = try #require(root.mapping)
    #expect(root.line == 2 && members.map(\.key.line) == [2, 5] && members.map(\.value.line) == [2, 2])
    #expect(members.last?.value.sequence?.map(\.line) == [3, 4])
  }

  @Test(
    arguments: [
      ("a: b: c", .syntax(line: 1, column: 5, problem: "mapping values are not allowed in this context")),
      ("a:\n\tb: 1", .syntax(line: 2, column: 1, problem: "found character that cannot start any token")),
      ("é: {a: 1", .syntax(line: 2, column: 1, problem: "did not find expected ',' or '}'")),
      ("a: *b", .syntax(line: 1, column: 4, problem: "found undefined alias")),
      ("a: &b [*b]", .syntax(line: 1, column: 8, problem: "found undefined alias")),
      (
        "a: 1\n---\nb: 2",
        .syntax(
          line: 2, column: 1, problem: "expected a single document in the stream, but found another document")
      ),
      ("a: \u{1}", .text(problem: "control characters are not allowed")),
      ("b: 1\na: 2\n'a': 3\nb: 4\nb: 5", .duplicateKeys(["a", "b"], line: 2)),
      ("x: {a: 1, *y : 2}", .syntax(line: 1, column: 11, problem: "found undefined alias")),
    ] as [(String, YAMLError)])
  func `a text that is no document is refused with its place`(text: String, expected: YAMLError) {
    #expect(error(text) == expected)
  }

  @Test func `an alias may be a key, and counts as what it names`() {
    #expect(error("a: &x b\n*x : 1\nb: 2") == .duplicateKeys(["b"], line: 1))
  }

  @Test func `bytes that are no text are refused`() {
    for bytes: [UInt8] in [[0xff], [0x61, 0xc3], [0x22, 0xed, 0xa0, 0x80, 0x22], [0]] {
      #expect(throws: YAMLError.self, "\(bytes)") { try Node.document(in: bytes) }
    }
  }

  @Test(arguments: [("[", "]"), ("{a: ", "}"), ("- ", ""), ("? ", "")])
  func `nodes nested deeper than the limit are refused`(opening: String, closing: String) throws {
    func nested(_ depth: Int) -> String {
      String(repeating: opening, count: depth) + "x" + String(repeating: closing, count: depth)
    }
    #expect(try document(nested(Node.depthLimit - 1)) != nil)
    for depth in [Node.depthLimit, 100_000] {
      guard case .syntax(line: 1, _, problem: "more than 100 levels") = error(nested(depth)) else {
        Issue.record("\(depth): \(String(describing: error(nested(depth))))")
        return
      }
    }
  }
}
