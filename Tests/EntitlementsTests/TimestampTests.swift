import Foundation
import Testing

@testable import Entitlements

@Suite struct TimestampTests {
  @Test(
    arguments: [
      (0, "1970-01-01T00:00:00Z"), (1, "1970-01-01T00:00:00.001Z"), (1_718_452_800_001, "2024-06-15T12:00:00.001Z"),
      (1_718_452_800_017, "2024-06-15T12:00:00.017Z"), (1_718_452_800_999, "2024-06-15T12:00:00.999Z"),
      (-1, "1969-12-31T23:59:59.999Z"), (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
    ] as [(Int64, String)])
  func `a time is written to the millisecond`(milliseconds: Int64, text: String) {
    #expect(Date(millisecondsSince1970: milliseconds).rfc3339 == text)
  }

  @Test func `every millisecond of a second comes back as it was`() throws {
    for millisecond in 0..<1000 as Range<Int64> {
      let text = Date(millisecondsSince1970: 1_718_452_800_000 + millisecond).rfc3339
      let fraction = text.split(separator: ".").dropFirst().first?.dropLast() ?? "000"
      #expect(Int64(fraction) == millisecond, "\(text)")
    }
  }
}
