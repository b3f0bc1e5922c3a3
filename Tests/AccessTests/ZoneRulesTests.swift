import Foundation
import Testing

@testable import Access

@Suite struct ZoneRulesTests {
  /// A file with summer time from 1000 to 2000 seconds after 1970.
  private static func file(version: String = "2", footer: String = "\nCET-1\n") -> [UInt8] {
    func header(_ counts: [UInt32]) -> [UInt8] {
      Array("TZif".utf8) + (version.isEmpty ? [0] : Array(version.utf8)) + Array(repeating: 0, count: 15)
        + counts.flatMap { bytes($0) }
    }
    func bytes(_ number: some FixedWidthInteger) -> [UInt8] { withUnsafeBytes(of: number.bigEndian) { Array($0) } }
    let types = bytes(Int32(3600)) + [0, 0] + bytes(Int32(7200)) + [1, 4] + Array("CET\0CEST\0".utf8)
    let counts: [UInt32] = [0, 0, 0, 2, 2, 9]
    let short = header(counts) + bytes(Int32(1000)) + bytes(Int32(2000)) + [1, 0] + types
    guard !version.isEmpty else { return short }
    return short + header(counts) + bytes(Int64(1000)) + bytes(Int64(2000)) + [1, 0] + types + Array(footer.utf8)
  }

  @Test(arguments: ["", "2", "3", "4"]) func `a file of any version is read`(version: String) throws {
    let rules = try #require(ZoneRules(tzif: Self.file(version: version)))
    #expect(
      [-5_000_000_000, 999, 1000, 1999, 2000, 5_000_000_000].map(rules.offset) == [3600, 3600, 7200, 7200, 3600, 3600])
  }

  @Test func `without a footer the last offset stays`() throws {
    let rules = try #require(ZoneRules(tzif: Self.file(footer: "\n\n")))
    #expect(rules.offset(at: 5_000_000_000) == 3600)
  }

  @Test func `the footer holds after the last change`() throws {
    let rules = try #require(ZoneRules(tzif: Self.file(footer: "\n<+05>-5\n")))
    #expect([1999, 2000, 5_000_000_000].map(rules.offset) == [7200, 18_000, 18_000])
  }

  @Test func `a file that breaks off is none`() {
    let whole = Self.file()
    for length in 0..<whole.count { #expect(ZoneRules(tzif: Array(whole.prefix(length))) == nil, "\(length)") }
    let old = Self.file(version: "")
    for length in 0..<old.count { #expect(ZoneRules(tzif: Array(old.prefix(length))) == nil, "\(length)") }
  }

  @Test func `a damaged byte is refused, or gives other offsets, and nothing worse`() throws {
    let whole = Self.file(footer: "\nCET-1CEST,M3.5.0,M10.5.0/3\n")
    for position in whole.indices {
      for value: UInt8 in [0, 1, 0x7f, 0x80, 0xff] {
        var bytes = whole
        bytes[position] = value
        let rules = ZoneRules(tzif: bytes)
        let offsets = [Int64.min / 1000, 0, 1500, 1_760_000_000, Int64.max / 1000].compactMap { rules?.offset(at: $0) }
        #expect(offsets.allSatisfy { abs($0) < 100 * 3600 })
      }
    }
  }

  @Test(arguments: [
    // Where a byte of the second header, or of what follows it, is, and another value of it.
    ("another magic", 0, 0x74), ("version 1 is unknown", 4, 0x31), ("leap seconds", 31, 1), ("no types", 39, 0),
    ("more times than there are bytes", 34, 0xff), ("a type that there is not", 60, 2),
    ("times that do not ascend", 50, 9), ("an offset of months", 62, 1),
  ])
  func `a damaged part is refused`(name: String, position: Int, value: UInt8) {
    var bytes = Self.file()
    let second = bytes.count - "\nCET-1\n".utf8.count - (44 + 2 * 8 + 2 + 2 * 6 + 9)
    #expect(bytes[second...].starts(with: "TZif".utf8) && ZoneRules(tzif: bytes) != nil)
    bytes[second + position] = value
    #expect(ZoneRules(tzif: bytes) == nil, "\(name)")
  }

  @Test(arguments: ["", "\n", "CET-1\n", "\nCET-1", "\nCET\n", "\nnonsense,,\n", "\nCET-1\n\n"])
  func `a damaged footer is refused`(footer: String) { #expect(ZoneRules(tzif: Self.file(footer: footer)) == nil) }

  // MARK: The yearly rule

  private func offsets(_ rule: String, _ moments: [String]) throws -> [Int64] {
    let rule = try #require(YearlyZoneRule(rule.utf8), "\(rule)")
    return try moments.map { rule.offset(at: Int64(try moment($0).timeIntervalSince1970)) }
  }

  @Test(
    arguments: [
      ("UTC0", 0), ("CET-1", 3600), ("EST5", -18_000), ("<+0330>-3:30", 12_600), ("<-1130>+11:30:15", -41_415),
      ("ABC24", -86_400),
    ] as [(String, Int64)])
  func `a rule without summer time holds always`(rule: String, offset: Int64) throws {
    #expect(try offsets(rule, ["1970-01-01", "2026-07-01", "2099-12-31 23:59"]) == [offset, offset, offset])
  }

  @Test(
    arguments: [
      // The last Sundays of March and October, both at one o'clock in UTC.
      ("CET-1CEST,M3.5.0,M10.5.0/3", "2040-03-25 01:00", "2040-10-28 01:00", 3600, 7200),
      // The second and the first Sunday, at two.
      ("EST5EDT,M3.2.0,M11.1.0", "2040-03-11 07:00", "2040-11-04 06:00", -18_000, -14_400),
      // Summer time by half an hour; the south, where it lasts over the new year, is below.
      ("AAA3BBB2:30,M3.1.1/0,M9.1.1/0", "2040-03-05 03:00", "2040-09-03 02:30", -10_800, -9000),
      // Days of the year: with and without a leap day, in a leap year.
      ("AAA0BBB,J60/0,J300/0", "2040-03-01 00:00", "2040-10-26 23:00", 0, 3600),
      ("AAA0BBB,60/0,300/0", "2040-03-01 00:00", "2040-10-26 23:00", 0, 3600),
      ("AAA0BBB,J59/0,J300/0", "2040-02-28 00:00", "2040-10-26 23:00", 0, 3600),
      ("AAA0BBB,59/0,300/0", "2040-02-29 00:00", "2040-10-26 23:00", 0, 3600),
      // Times on another day: the evening before, and the Thursday after the fourth Sunday.
      ("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2040-03-25 01:00", "2040-10-28 01:00", -7200, -3600),
      ("AAA0BBB,M3.4.0/98,M10.4.4/50", "2040-03-29 02:00", "2040-10-27 01:00", 0, 3600),
    ] as [(String, String, String, Int64, Int64)])
  func `summer time begins and ends to the second`(
    rule: String, begin: String, end: String, standard: Int64, summer: Int64
  ) throws {
    let yearly = try #require(YearlyZoneRule(rule.utf8))
    let (first, last) = (Int64(try moment(begin).timeIntervalSince1970), Int64(try moment(end).timeIntervalSince1970))
    #expect(
      [first - 1, first, last - 1, last].map(yearly.offset) == [standard, summer, summer, standard], "\(rule)")
  }

  @Test func `summer time in the south lasts over the new year`() throws {
    let rule = "AEST-10AEDT,M10.1.0,M4.1.0/3"
    #expect(
      try offsets(rule, ["2040-12-31 23:00", "2041-01-01 00:00", "2041-04-06 15:59", "2041-04-06 16:00"])
        == [39_600, 39_600, 39_600, 36_000])
  }

  @Test func `winter time may be the one that is declared`() throws {
    // Ireland's law: standard time in summer, and an hour less in winter.
    #expect(
      try offsets("IST-1GMT0,M10.5.0,M3.5.0/1", ["2040-01-15", "2040-07-15", "2040-12-15"]) == [0, 3600, 0])
  }

  @Test func `summer time may last all year`() throws {
    // The example of RFC 8536, section 3.3.1.
    let moments = ["2039-12-31 23:59", "2040-01-01 04:59", "2040-01-01 05:00", "2040-07-01", "2041-01-01 05:00"]
    #expect(try offsets("EST5EDT,0/0,J365/25", moments) == moments.map { _ in -14_400 })
  }

  @Test(arguments: [
    "", "CET", "CE-1", "-1", "CET-25", "CET-1:60", "CET-1:00:60", "CET--1", "CET-1 ", "<+01-1", "<+>-1", "<a_b>1",
    "CET-1CEST", "CET-1CEST,", "CET-1CEST,M3.5.0", "CET-1CEST,M3.5.0,", "CET-1CEST,M3.5.0,M10.5.0,",
    "CET-1CEST,M0.5.0,M10.5.0", "CET-1CEST,M13.5.0,M10.5.0", "CET-1CEST,M3.0.0,M10.5.0", "CET-1CEST,M3.6.0,M10.5.0",
    "CET-1CEST,M3.5.7,M10.5.0", "CET-1CEST,M3.5,M10.5.0", "CET-1CEST,J0,J300", "CET-1CEST,J366,J300",
    "CET-1CEST,366,300", "CET-1CEST,M3.5.0/168,M10.5.0", "CET-1CEST,M3.5.0/-168,M10.5.0", "CET-1CEST,M3.5.0/,M10.5.0",
    "CET-99999999999999999999", "\0\0\0\0", "::::",
  ])
  func `a rule of another form is refused`(rule: String) { #expect(YearlyZoneRule(rule.utf8) == nil) }
}
