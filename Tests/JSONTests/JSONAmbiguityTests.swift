import Testing

@testable import JSON

@Suite struct JSONAmbiguityTests {
  private func ambiguity(_ json: String) -> JSONAmbiguity? {
    Array(json.utf8).withUnsafeBytes(JSONAmbiguity.first)
  }

  @Test(
    arguments: [
      #"{"a":1,"b":{"a":2,"a":3},"c":["a","a"],"d":"a\":a"}"#, #"{}"#, #"[]"#, #"{"a":"b","b":"a"}"#, #"{"":1}"#,
      #"{"a":"{\"a\":1,\"a\":2}"}"#,
      #"{"a":[1,[2,{}],{"b":",}"}],"c":",]"}"#, "{\"a\":\"\u{FEFF}\" , \"b\" : [ ] }",
    ])
  func `an object that names each member once is clear`(json: String) {
    #expect(ambiguity(json) == nil)
  }

  @Test(arguments: [#"{"a":1,"a":1}"#, #"{"a":{"b":[1]},"c":"}{","a":null}"#, #"{ "a" : 1 , "a" : 2 }"#])
  func `a member given twice is found`(json: String) {
    #expect(ambiguity(json) == .repeated(Array("a".utf8)))
  }

  @Test(arguments: [#"{"a":1,"\u0061":1}"#, #"{"\u0061":1}"#])
  func `an escaped name is found`(json: String) {
    #expect(ambiguity(json) == .escaped)
  }

  @Test(arguments: [#"{"a":1,}"#, #"[1,2 , ]"#, "{\"a\":{\"b\":[1,\t]}}", "{\"a\":[{\"b\":1,\r\n}]}"])
  func `a comma with nothing behind it is found`(json: String) {
    #expect(ambiguity(json) == .trailingComma)
  }

  @Test func `a byte order mark is found`() {
    #expect(ambiguity("\u{FEFF}{}") == .mark)
  }
}
