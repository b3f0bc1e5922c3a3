import Testing

@testable import JSON

@Suite struct JSONReaderAtOnceTests {
  private func keys(_ text: String, size: JSONReader.Size = .small) throws(JSONError) -> Bool {
    try JSONReader.readAtOnce(Array(text.utf8), size: size) { json in json.has("a") }
  }

  @Test func `a small text is read at once, within limits of its own`() throws {
    #expect(try keys(#"{"a":1}"#))
    #expect(try keys(#"{"a":null}"#))
    #expect(try !keys("{}"))
    let long = #"{"a":"\#(String(repeating: "x", count: 256 * 1024))"}"#
    let many = #"{"a":[\#(Array(repeating: "{}", count: 2_001).joined(separator: ","))]}"#
    let deep = #"{"a":\#(String(repeating: "[", count: 17) + String(repeating: "]", count: 17))}"#
    for text in [long, many, deep] {
      #expect(throws: JSONError.tooLarge) { try keys(text) }
      #expect(try keys(text, size: .whole))
    }
  }

  @Test func `a text or number that the parser refuses is an empty object to a forgiving reader`() throws {
    func value(_ text: String) throws(JSONError) -> String {
      try JSONReader.readForgivingly(Array(text.utf8)) { json in
        switch json.kind("a") {
        case .string(let text): text
        case .integer(let number): "\(number)"
        case .object: json["a"]?.isEmptyContainer == true ? "{}" : "{…}"
        case .array: json["a"]?.elements.map { $0.isObject ? "{}" : "x" }.joined() ?? ""
        default: "-"
        }
      }
    }
    let nines = String(repeating: "9", count: 30)
    for odd in [#""\ud83d""#, #""\ude00\ud83d""#, #""b\u0000c""#, "\"\u{1}\"", nines, "-\(nines)", "1e999", #""\x""#] {
      #expect(try value(#"{"a":\#(odd)}"#) == "{}", "\(odd)")
      #expect(try value(#"{"b":\#(odd),"a":[1,\#(odd),"}",{}] }"#) == "x{}x{}", "\(odd)")
      #expect(try value(#"{"b":{"c":[{"d":\#(odd)}]},"a":7}"#) == "7", "\(odd)")
    }
    #expect(try value(#"{"\ud83d" : 1,"\u0000":2,"a":"\ud83d\ude00\"\\"}"#) == "😀\"\\")
    #expect(try value(#"{"a":1,"b":{"c":1,"c":2},"a":2}"#) == "2")
    let names = (0..<5_000).map { #""n\#($0)":{"value":"x"}"# }.joined(separator: ",")
    #expect(try value(#"{"b":{\#(names)},"a":7}"#) == "7")
  }

  @Test func `a forgiving reader forgives nothing else, and has limits`() {
    func read(_ bytes: [UInt8]) throws(JSONError) { try JSONReader.readForgivingly(bytes) { _ in } }
    for text in ["", "x", "[1]", #"{"a":1"#, #"{"a":"b"#, #"{"a":tru}"#, #"{"a":1}{"#, #"{"a":1,}"#, "{\"a\":\"\0\"}"] {
      #expect(throws: JSONError.syntax, "\(text)") { try read(Array(text.utf8)) }
    }
    let deep = #"{"b":"\ud83d","a":\#(String(repeating: "[", count: 65))\#(String(repeating: "]", count: 65))}"#
    let long = #"{"a":"\#(String(repeating: "x", count: 512 * 1024))"}"#
    for text in [deep, long] { #expect(throws: JSONError.tooLarge) { try read(Array(text.utf8)) } }
    #expect(throws: JSONError.syntax) { try read(Array(#"{"a":"#.utf8) + [0xC3, 0x28] + Array("}".utf8)) }
    #expect(throws: Never.self) { try read(Array(#"{"a":""#.utf8) + [0xC3, 0x28] + Array(#""}"#.utf8)) }
  }

  @Test func `an integer beyond 64 bits is its digits to a reader that wants them, and nothing else is forgiven`()
    throws
  {
    func read(_ text: String) throws(JSONError) -> String {
      try JSONReader.readAtOnce(Array(text.utf8), largeIntegers: .text) { json in
        switch json.kind("a") {
        case .string(let text): text
        case .integer(let number): "\(number)"
        default: "-"
        }
      }
    }
    for large in ["9223372036854775808", "-9223372036854775809", String(repeating: "9", count: 30)] {
      #expect(try read(#"{"a":\#(large)}"#) == large)
      #expect(try read(#"{"b":[{"c": \#(large) },\#(large)],"a":"\#(large)\""}"#) == large + "\"")
      #expect(try read(#"{"b":\#(large),"a":-9223372036854775808}"#) == "-9223372036854775808")
      for text in [
        #"{"a":\#(large)x}"#, #"{"a":0\#(large)}"#, #"{"a":\#(large).}"#, #"{\#(large):1}"#, #"{"a":1 \#(large)}"#,
        #"{"a":\#(large),"a":1}"#, #"{"a":"\u0000","b":\#(large)}"#, #"{"a":\#(large)"#, large, "[\(large)]",
      ] {
        #expect(throws: JSONError.syntax, "\(text)") { try read(text) }
      }
      #expect(throws: JSONError.syntax) { try keys(#"{"a":\#(large)}"#) }
    }
  }

  @Test func `reading at once is as strict as any other reading`() {
    for text in [#"{"a":1,"a":2}"#, #"{"a":1} x"#, "[1]", "", #"{"a":"\u0000"}"#] {
      #expect(throws: JSONError.syntax) { try keys(text) }
    }
  }
}
