import Testing

@testable import AppStore
@testable import JSON

@Suite struct JSONValueTolerantTests {
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
  func `a value that is no integer fails, and the error names the place, not the value`(_ text: String) throws {
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
  func `a value that is no boolean fails`(_ text: String) throws {
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
}
