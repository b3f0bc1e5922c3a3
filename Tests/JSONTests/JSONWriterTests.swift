import Foundation
import JSON
import Testing

@Suite struct JSONWriterTests {
  @Test func `texts are spelled as Foundation spells them`() throws {
    let encoder = JSONEncoder()
    encoder.outputFormatting = .withoutEscapingSlashes
    let texts =
      (UInt8(0)...0x7f).map { String(Unicode.Scalar($0)) } + [
        "", "plain", "a/b", "é😀\u{2028}\u{202e}\u{85}", "a\"b\\c\nd",
      ]
    for text in texts {
      let written = JSONWriter.object { json in json.member("text", text) }
      #expect(written == Array(try encoder.encode(["text": text])), "\(text.debugDescription)")
      #expect(JSONWriter.object { json in json.member(text, text) } == Array(try encoder.encode([text: text])))
    }
  }

  @Test func `objects and arrays nest, with commas between their values alone`() {
    let written = JSONWriter.object { json in
      json.member("none", nil as String?)
      json.member("absent", ifPresent: nil as Int64?)
      json.array("empty") { _ in }
      json.object("inner") { json in
        json.object("inmost") { _ in }
        json.member("flag", true)
      }
      json.array("list") { json in
        json.value(Int64.min)
        json.value(nil as String?)
        json.array { json in json.value(false) }
        json.object { json in json.member("number", ifPresent: 0) }
        json.value(raw: "1.5")
      }
      json.member("last", raw: "{}")
    }
    #expect(
      String(decoding: written, as: UTF8.self)
        == #"{"none":null,"empty":[],"inner":{"inmost":{},"flag":true},"list":[-9223372036854775808,null,[false],"#
        + #"{"number":0},1.5],"last":{}}"#)
  }

  @Test func `a caller has further scalars escaped, in two units where one does not hold them`() {
    var json = JSONWriter(escaping: { $0.value >= 0x7f && $0 != "é" })
    json.object { json in json.member("é", "a\u{7f}\n\"é\u{202e}😀") }
    #expect(String(decoding: json.bytes, as: UTF8.self) == #"{"é":"a\u007f\n\"é\u202e\ud83d\ude00"}"#)
  }
}
