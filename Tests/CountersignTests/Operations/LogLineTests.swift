import Foundation
import Logging
import Testing

@testable import Countersign

@Suite struct LogLineJSONTests {
  @Test(
    arguments: [
      "plain", "two\nlines", "carriage\r\nreturn", "\u{1b}[31mred", "quote\"backslash\\", "\u{202e}reversed", "\u{0}",
      "ünïcode 😀", "\u{2028}",
    ])
  func `every value is one line of JSON and comes back as it was`(value: String) throws {
    let line = LogLine(
      time: Date(timeIntervalSince1970: 0), level: .warning, label: "l", message: value, fields: ["key": "\(value)"]
    ).json
    #expect(line.hasSuffix("}\n"))
    let text = line.dropLast()
    #expect(!text.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x202e || $0.value == 0x2028 })
    let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: String])
    #expect(object["message"] == value)
    #expect(object["key"] == value)
    #expect(object["level"] == "warning")
    #expect(object["time"] == "1970-01-01T00:00:00Z")
  }

  @Test func `numbers and booleans are written as such, and identifiers of digits stay texts`() throws {
    let line = LogLine(
      time: Date(timeIntervalSince1970: 0), level: .info, label: "l", message: "m",
      fields: [
        "status": .stringConvertible(200), "milliseconds": .stringConvertible(173.982129),
        "changed": .stringConvertible(false), "large": .stringConvertible(UInt64.max), "user_id": "123",
        "request_id": "\(4711)", "odd": .stringConvertible(Double.infinity), "true": "true",
        "list": ["1", "2"], "id": .stringConvertible(UUID(uuid: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1))),
      ]
    ).json
    for part in [
      #""status":200,"#, #""milliseconds":173.982,"#, #""changed":false,"#, #""large":18446744073709551615,"#,
      #""user_id":"123""#, #""request_id":"4711","#, #""odd":"inf","#, #""true":"true""#,
      #""id":"00000000-0000-0000-0000-000000000001","#,
    ] { #expect(line.contains(part), "\(part): \(line)") }
    #expect(try JSONSerialization.jsonObject(with: Data(line.utf8)) is [String: Any])
  }
}

@Suite struct LogLineTextTests {
  @Test func `the message comes first, then what belongs to it`() {
    let line = LogLine(
      time: Date(timeIntervalSince1970: 0), level: .notice, label: "l", message: "verdict",
      fields: [
        "user_id": "user-1", "caller": "(user)", "milliseconds": .stringConvertible(1.23456),
        "status": .stringConvertible(200),
        "finding": "has a space", "empty": "", "quote": "a\"b c\\",
      ]
    ).text
    #expect(
      line
        == #"1970-01-01T00:00:00Z notice verdict caller=(user) empty="" finding="has a space" milliseconds=1.235 "#
        + #"quote="a\"b c\\" status=200 user_id=user-1"# + "\n")
  }

  @Test(arguments: ["two\nlines", "carriage\r\nreturn", "\u{1b}[31mred", "\u{202e}reversed", "\u{0}", "\u{2028}"])
  func `no value begins a line of its own or drives a terminal`(value: String) {
    let line = LogLine(
      time: Date(timeIntervalSince1970: 0), level: .warning, label: "l", message: "m \(value)",
      fields: ["key": "\(value)"]
    ).text
    #expect(line.hasSuffix("\n"))
    #expect(!line.dropLast().unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x202e || $0.value == 0x2028 })
  }
}
