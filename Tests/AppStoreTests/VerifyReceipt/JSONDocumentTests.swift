import Testing

@testable import AppStore

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
  func `what would amplify is refused before a tree is built`(_ hostile: Hostile) {
    let admitted = hostile.bytes.withUnsafeBytes { JSONLimits().admit($0) }
    #expect(!admitted)
  }

  @Test func `what is just within the limits is taken`() throws {
    _ = try JSONDocument(Array(Hostile.nested(64).utf8))
    _ = try JSONDocument(Array(Hostile.many("{}", 99_998).utf8))
    _ = try JSONDocument(Array(Hostile.many("0", 1_000_000).utf8))
  }

  @Test func `brackets and commas inside a text are not counted`() throws {
    let text = String(repeating: #"[{,\"\\"#, count: 200_000)
    let document = try JSONDocument(Array(#"{"a":"\#(text)"}"#.utf8))
    #expect(try document.root.text("a")?.utf8.count == 200_000 * 5)
  }

  @Test(arguments: [
    ("123456789012345678", Int64(123_456_789_012_345_678)), ("9007199254740993", 9_007_199_254_740_993),
    ("9223372036854775807", .max), ("-9223372036854775808", .min), ("0", 0), ("-0", 0),
    (#""123456789012345678""#, 123_456_789_012_345_678), (#""9223372036854775807""#, .max), (#""-5""#, -5),
  ])
  func `integers are exact to 64 bits, as numbers and as text`(_ text: String, _ value: Int64) throws {
    #expect(try JSONDocument(Array(#"{"a":\#(text)}"#.utf8)).root.integer("a") == value)
  }

  @Test(arguments: [
    "1.0", "1e3", "true", "{}", "[]", #""1.5""#, #"" 1""#, #""1 ""#, #""+1""#, #""0x1""#, #""9223372036854775808""#,
    #""one""#, #""١""#, #""-""#,
  ])
  func `what is not an integer fails and the error names the place, not the value`(_ text: String) throws {
    let document = try JSONDocument(Array(#"{"a":{"b":\#(text)}}"#.utf8))
    let object = try #require(try document.root.object("a"))
    #expect(throws: JSONError.unreadable(path: "a.b")) { try object.integer("b") }
  }

  @Test(arguments: [
    ("true", true), ("false", false), (#""true""#, true), (#""false""#, false), (#""1""#, true), (#""0""#, false),
    ("1", true), ("0", false),
  ])
  func `booleans are read in every spelling`(_ text: String, _ value: Bool) throws {
    #expect(try JSONDocument(Array(#"{"a":\#(text)}"#.utf8)).root.flag("a") == value)
  }

  @Test(arguments: ["2", #""yes""#, #""TRUE""#, "{}", "[]", "0.0", "-1"])
  func `what is not a boolean fails`(_ text: String) throws {
    let root = try JSONDocument(Array(#"{"a":\#(text)}"#.utf8)).root
    #expect(throws: JSONError.unreadable(path: "a")) { try root.flag("a") }
  }

  @Test(arguments: ["{}", #"{"a":null}"#, #"{"a":""}"#])
  func `a missing key, null and an empty text are absent`(_ text: String) throws {
    let root = try JSONDocument(Array(text.utf8)).root
    #expect(try root.text("a") == nil)
    #expect(try root.integer("a") == nil)
    #expect(try root.flag("a") == nil)
    #expect(try root.date("a") == nil)
  }

  @Test(arguments: [
    (#"{"a":{"b":1}}"#, 1), (#"{"a":[{"b":1},{"b":2}]}"#, 2), (#"{"a":[]}"#, 0), (#"{"a":{}}"#, 0),
  ])
  func `a lone object is a list of one`(_ text: String, _ count: Int) throws {
    #expect(try JSONDocument(Array(text.utf8)).root.objects("a")?.count == count)
  }

  @Test(arguments: [
    (#"{"a":"x"}"#, "a"), (#"{"a":5}"#, "a"), (#"{"a":[{},null]}"#, "a[1]"), (#"{"a":[[]]}"#, "a[0]"),
  ])
  func `a list with something else in it fails`(_ text: String, _ path: String) throws {
    let root = try JSONDocument(Array(text.utf8)).root
    #expect(throws: JSONError.unreadable(path: path)) { try root.objects("a") }
  }

  @Test func `values outlive the scope in which the document was named`() throws {
    func value() throws -> JSONValue? {
      try JSONDocument(Array(#"{"a":{"b":["deep"]}}"#.utf8)).root.object("a")
    }
    let element = try #require(try value()?["b"]?.elements.first)
    guard case .string(let text) = element.kind else {
      Issue.record("not a text")
      return
    }
    #expect(text == "deep")
  }
}
