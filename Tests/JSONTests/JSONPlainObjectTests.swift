import Foundation
import Testing

@testable import JSON

@Suite struct JSONPlainObjectTests {
  private static func members(_ json: some Sequence<UInt8>) -> JSONPlainObject? {
    Array(json).withUnsafeBytes(JSONPlainObject.init)
  }

  private static func members(_ json: String) -> JSONPlainObject? { members(json.utf8) }

  @Test func `texts are read by their names`() throws {
    let read = try #require(
      Self.members(" {\"user_id\" : \"u-1\",\n\t\"receipt_data\":\"MIIT\\u0041\"}".replacing("\\u0041", with: "+/=")))
    #expect(read["user_id"] == "u-1")
    #expect(read["receipt_data"] == "MIIT+/=")
    #expect(read["original_transaction_id"] == nil)
    #expect(try #require(Self.members(#"{"a":"é – 😀","":""}"#))["a"] == "é – 😀")
  }

  @Test(
    arguments: [
      "", "{", "{}", "[]", "\"a\"", #"{"a"}"#, #"{"a":}"#, #"{"a":"b"#, #"{"a":"b",}"#, #"{"a":"b"}x"#, #"{"a":"b"} {"#,
      #"{"a":1}"#, #"{"a":null}"#, #"{"a":{}}"#, #"{"a":["b"]}"#, #"{"a":"b","a":"c"}"#, #"{"a":"\n"}"#,
      #"{"\u0061":"b"}"#,
      #"{a:"b"}"#, #"{"a":"b" "c":"d"}"#, "{\"a\":\"\u{0}\"}", "{\"a\":\"\t\"}", "\u{feff}{\"a\":\"b\"}",
      "{\"a\":\"b\"}\u{0}",
    ])
  func `whatever is not plainly texts is left to a parser`(json: String) {
    #expect(Self.members(json) == nil)
  }

  @Test func `bytes that are no UTF-8 are left to a parser`() {
    let bad: [[UInt8]] = [[0xff], [0xc3], [0xc0, 0x80], [0xed, 0xa0, 0x80], [0xf5, 0x80, 0x80, 0x80]]
    for bytes in bad {
      #expect(Self.members(Array(#"{"a":""#.utf8) + bytes + Array("\"}".utf8)) == nil)
      #expect(Self.members(Array("{\"".utf8) + bytes + Array(#"":"a"}"#.utf8)) == nil)
    }
  }

  @Test func `more members than any post has are left to a parser`() {
    func json(_ count: Int) -> String { "{" + (0..<count).map { "\"m\($0)\":\"\"" }.joined(separator: ",") + "}" }
    #expect(Self.members(json(16)) != nil)
    #expect(Self.members(json(17)) == nil)
  }

  /// Whatever is read is what Foundation reads, and nothing is read that it refuses.
  @Test func `damaged texts are read as a full parser reads them, or not at all`() throws {
    let whole = Array(
      #"{"user_id":"user-17","receipt_data":"MIIT5wYJ/KoZI+hvc==","original_transaction_id":"é1000"}"#.utf8)
    let bytes = Array(#"{}[]":,\ntu0e1é"#.utf8) + [0, 9, 0x1f, 0x7f, 0x80, 0xff]
    var read = 0
    for place in whole.indices {
      for byte in bytes {
        for damaged in [
          whole[..<place] + [byte] + whole[(place + 1)...], whole[..<place] + [byte] + whole[place...],
          whole[..<place] + whole[(place + 1)...],
        ] {
          guard let members = Self.members(damaged) else { continue }
          let object = try JSONSerialization.jsonObject(with: Data(damaged)) as? [String: String]
          let expected = try #require(object)
          for (name, text) in expected { #expect(members[name] == text) }
          read += 1
        }
      }
    }
    #expect(read > 1_000)
  }
}
