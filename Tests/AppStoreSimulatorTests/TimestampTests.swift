import Foundation
import Testing

@testable import AppStoreSimulator

@Suite("Moments as Apple writes them")
struct TimestampTests {
  @Test(
    "a month later is the same day, or the last of a shorter month",
    arguments: [
      ("2026-01-15T12:00:00Z", 1, "2026-02-15T12:00:00Z"),
      ("2026-01-31T12:00:00Z", 1, "2026-02-28T12:00:00Z"),
      ("2024-01-31T12:00:00Z", 1, "2024-02-29T12:00:00Z"),
      ("2026-01-31T12:00:00Z", 2, "2026-03-31T12:00:00Z"),
      ("2026-12-31T23:59:59Z", 2, "2027-02-28T23:59:59Z"),
      ("2026-01-15T12:00:00Z", -2, "2025-11-15T12:00:00Z"),
      ("2024-02-29T00:00:00Z", 12, "2025-02-28T00:00:00Z"),
      ("1969-12-31T00:00:00Z", 1, "1970-01-31T00:00:00Z"),
    ])
  func addsMonths(from: String, months: Int, to: String) throws {
    #expect(try #require(Timestamp(text: from)).adding(months: months).text == to)
  }

  @Test(
    "the Pacific text changes with daylight time",
    arguments: [
      ("2018-10-05T11:24:19Z", "2018-10-05 04:24:19 America/Los_Angeles"),
      ("2026-01-15T12:00:00Z", "2026-01-15 04:00:00 America/Los_Angeles"),
      ("2026-03-08T09:59:59Z", "2026-03-08 01:59:59 America/Los_Angeles"),
      ("2026-03-08T10:00:00Z", "2026-03-08 03:00:00 America/Los_Angeles"),
      ("2026-11-01T08:59:59Z", "2026-11-01 01:59:59 America/Los_Angeles"),
      ("2026-11-01T09:00:00Z", "2026-11-01 01:00:00 America/Los_Angeles"),
      ("2013-08-01T07:00:00Z", "2013-08-01 00:00:00 America/Los_Angeles"),
    ])
  func pacific(moment: String, text: String) throws {
    #expect(try #require(Timestamp(text: moment)).pacificText == text)
  }

  @Test("text that is no time is refused", arguments: ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-15"])
  func refuses(text: String) {
    #expect(Timestamp(text: text) == nil)
  }

  @Test(
    "durations are read in their unit",
    arguments: [("300ms", 300), ("10s", 10_000), ("5m", 300_000), ("24h", 86_400_000), ("-2d", -172_800_000), ("0", 0)])
  func durations(text: String, milliseconds: Int64) {
    #expect(DurationText.milliseconds(text) == milliseconds)
  }

  @Test("other durations are refused", arguments: ["", "10", "d", "1w", "1.5s", "9223372036854775807d"])
  func refusedDurations(text: String) {
    #expect(DurationText.milliseconds(text) == nil)
  }

  @Test(
    arguments: [
      (0, "Thu, 01 Jan 1970 00:00:00 GMT"), (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
      (1_768_478_400, "Thu, 15 Jan 2026 12:00:00 GMT"), (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
    ])
  func `an answer is dated as HTTP writes dates`(seconds: Int, text: String) {
    #expect(Date(timeIntervalSince1970: Double(seconds)).imfFixdate == text)
  }
}
