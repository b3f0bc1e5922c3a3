import Foundation
import Testing

@testable import CountersignServer

@Suite struct DateParameterTests {
  @Test(arguments: [
    ("2026-12-31T23:00:00Z", 1_798_758_000), ("2026-12-31T23:00:00.250Z", 1_798_758_000.25),
    ("2027-01-01T00:00:00+01:00", 1_798_758_000), ("2024-02-29T00:00:00Z", 1_709_164_800),
  ])
  func `a time with a zone is read`(text: String, seconds: Double) throws {
    #expect(try Date(checking: text, named: "since") == Date(timeIntervalSince1970: seconds))
  }

  /// Foundation reads the first three as the next hour, minute or month.
  @Test(arguments: [
    "2026-01-01T12:99:00Z", "2026-01-01T12:00:75Z", "2026-02-30T12:00:00Z", "2026-01-01T24:00:00Z",
    "2026-01-01T12:00:00", "2026-01-01", "2026-01-01T12:00:00Z and more", "",
    "2026-01-01T12:00:00.\(String(repeating: "0", count: 40))Z",
  ])
  func `a time that no clock shows is refused`(text: String) {
    #expect(throws: Problem.self) { try Date(checking: text, named: "since") }
  }
}
