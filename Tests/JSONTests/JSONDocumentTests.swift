import Testing

@testable import JSON

@Suite struct JSONDocumentTests {
  struct Hostile: Sendable, CustomTestStringConvertible {
    var name: String
    var bytes: [UInt8]
    var error: JSONError

    init(_ name: String, _ bytes: [UInt8], _ error: JSONError = .syntax) {
      self.name = name
      self.bytes = bytes
      self.error = error
    }
    init(_ name: String, _ text: String, _ error: JSONError = .syntax) { self.init(name, Array(text.utf8), error) }

    var testDescription: String { name }

    static let all: [Hostile] = [
      Hostile("nothing", ""),
      Hostile("white space", " \n\t"),
      Hostile("HTML", "<!DOCTYPE html><html><body>503</body></html>"),
      Hostile("a list", "[]"),
      Hostile("a bare number", "0"),
      Hostile("a bare text", "\"status\""),
      Hostile("cut short", #"{"status":0,"receipt":{"#),
      Hostile("cut in a text", #"{"status":"0"#),
      Hostile("trailing comma", #"{"status":0,}"#),
      Hostile("trailing object", #"{"status":0}{"status":21010}"#),
      Hostile("trailing letter", #"{"status":0}x"#),
      Hostile("trailing NUL", Array(#"{"status":0}"#.utf8) + [0]),
      Hostile("leading NUL", [0] + Array(#"{"status":0}"#.utf8)),
      Hostile("NUL between", Array(#"{"status":"#.utf8) + [0] + Array("0}".utf8)),
      Hostile("NUL in a text", Array(#"{"a":"b"#.utf8) + [0] + Array("\"}".utf8)),
      Hostile("escaped NUL in a text", #"{"a":"b\u0000c"}"#),
      Hostile("escaped NUL in a key", #"{"a\u0000":1}"#),
      Hostile("duplicate key", #"{"status":0,"status":21010}"#),
      Hostile("duplicate key, escaped", #"{"status":0,"st\u0061tus":21010}"#),
      Hostile("duplicate key, deep", #"{"receipt":{"in_app":[{"a":1,"a":2}]}}"#),
      Hostile("64-bit overflow", #"{"a":9223372036854775808}"#),
      Hostile("64-bit underflow", #"{"a":-9223372036854775809}"#),
      Hostile("huge integer", #"{"a":\#(String(repeating: "9", count: 10_000))}"#),
      Hostile("1e999", #"{"a":1e999}"#),
      Hostile("-1e999", #"{"a":-1e999}"#),
      Hostile("NaN", #"{"a":NaN}"#),
      Hostile("leading zero", #"{"a":01}"#),
      Hostile("hexadecimal", #"{"a":0x10}"#),
      Hostile("single quotes", "{'a':1}"),
      Hostile("comment", "{/* */}"),
      Hostile("byte order mark", [0xEF, 0xBB, 0xBF] + Array("{}".utf8)),
      Hostile("UTF-16", [0xFF, 0xFE, 0x7B, 0, 0x7D, 0]),
      Hostile("invalid UTF-8", Array(#"{"a":""#.utf8) + [0xC3, 0x28] + Array("\"}".utf8)),
      Hostile("overlong UTF-8", Array(#"{"a":""#.utf8) + [0xC0, 0xAF] + Array("\"}".utf8)),
      Hostile("UTF-8 surrogate", Array(#"{"a":""#.utf8) + [0xED, 0xA0, 0x80] + Array("\"}".utf8)),
      Hostile("lone surrogate", #"{"a":"\ud800"}"#),
      Hostile("raw control character", "{\"a\":\"\u{1}\"}"),
      Hostile("depth 65", nested(65), .tooLarge),
      Hostile("depth 100 000", nested(100_000), .tooLarge),
      Hostile("depth without an end", #"{"a":"# + String(repeating: "[", count: 1_000_000), .tooLarge),
      Hostile("more than 8 MiB", "{}" + String(repeating: " ", count: 8 * 1024 * 1024), .tooLarge),
      Hostile("5 MB of empty objects", many("{}", 1_700_000), .tooLarge),
      Hostile("5 MB of empty lists", many("[]", 1_700_000), .tooLarge),
      Hostile("4 MB of zeros", many("0", 2_000_000), .tooLarge),
    ]

    static func nested(_ depth: Int) -> String {
      #"{"a":"# + String(repeating: "[", count: depth - 1) + String(repeating: "]", count: depth - 1) + "}"
    }

    static func many(_ element: String, _ count: Int) -> String {
      #"{"a":["# + String(repeating: element + ",", count: count - 1) + element + "]}"
    }
  }

  @Test(arguments: Hostile.all)
  func `hostile JSON is refused`(_ hostile: Hostile) {
    #expect(throws: hostile.error) { try JSONDocument(hostile.bytes) }
  }

  @Test(arguments: Hostile.all.filter { $0.error == .tooLarge })
  func `a text that would amplify is refused before a tree is built`(_ hostile: Hostile) {
    let admitted = hostile.bytes.withUnsafeBytes { JSONLimits().admit($0) }
    #expect(!admitted)
  }

  @Test func `a text just within the limits is taken`() throws {
    _ = try JSONDocument(Array(Hostile.nested(64).utf8))
    _ = try JSONDocument(Array(Hostile.many("{}", 99_998).utf8))
    _ = try JSONDocument(Array(Hostile.many("0", 1_000_000).utf8))
  }

  @Test func `brackets and commas inside a text are not counted`() throws {
    let text = String(repeating: #"[{,\"\\"#, count: 200_000)
    let document = try JSONDocument(Array(#"{"a":"\#(text)"}"#.utf8))
    guard case .string(let read) = document.root["a"]?.kind else {
      Issue.record("not a text")
      return
    }
    #expect(read.utf8.count == 200_000 * 5)
  }

  @Test func `a list is a document where one may be`() throws {
    #expect(throws: JSONError.syntax) { try JSONDocument(Array("[{}]".utf8)) }
    #expect(try JSONDocument(Array("[{},\n {}]".utf8), root: .any).root.elements.count == 2)
    #expect(throws: JSONError.syntax) { try JSONDocument(Array("1".utf8), root: .any) }
  }

  @Test func `values outlive the scope in which the document was named`() throws {
    func value() throws -> JSONValue? {
      try JSONDocument(Array(#"{"a":{"b":["deep"]}}"#.utf8)).root["a"]
    }
    let element = try #require(try value()?["b"]?.elements.first)
    guard case .string(let text) = element.kind else {
      Issue.record("not a text")
      return
    }
    #expect(text == "deep")
  }
}
