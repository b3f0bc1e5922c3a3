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

  @Test func `reading at once is as strict as any other reading`() {
    for text in [#"{"a":1,"a":2}"#, #"{"a":1} x"#, "[1]", "", #"{"a":"\u0000"}"#] {
      #expect(throws: JSONError.syntax) { try keys(text) }
    }
  }
}
