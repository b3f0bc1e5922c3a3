import Foundation
import Logging
import Testing

@testable import Countersign

@Suite struct JSONLogHandlerTests {
  @Test(
    arguments: [
      "plain", "two\nlines", "carriage\r\nreturn", "\u{1b}[31mred", "quote\"backslash\\", "\u{202e}reversed", "\u{0}",
      "ünïcode 😀", "\u{2028}",
    ])
  func `every value is one line of JSON and comes back as it was`(value: String) throws {
    let line = JSONLogHandler.line(
      time: Date(timeIntervalSince1970: 0), level: .warning, label: "l", message: value, fields: ["key": "\(value)"])
    #expect(line.hasSuffix("}\n"))
    let text = line.dropLast()
    #expect(!text.unicodeScalars.contains { $0.value < 0x20 || $0.value == 0x202e || $0.value == 0x2028 })
    let object = try #require(try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: String])
    #expect(object["message"] == value)
    #expect(object["key"] == value)
    #expect(object["level"] == "warning")
    #expect(object["time"] == "1970-01-01T00:00:00Z")
  }
}
