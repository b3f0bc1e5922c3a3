import Access
import Foundation
import Testing

@Suite struct PlansTests {
  @Test(
    arguments: [
      ("4.99", 4_990), ("39.99", 39_990), ("5", 5_000), ("0", 0), ("0.125", 125), ("600.5", 600_500),
      ("999999999.999", 999_999_999_999),
    ] as [(String, Int64)])
  func `a price is exact`(text: String, milliunits: Int64) { #expect(Price(text)?.milliunits == milliunits) }

  @Test(
    arguments: [
      (4_990, "4.99"), (5_000, "5.00"), (0, "0.00"), (125, "0.125"), (5, "0.005"), (-10, "-0.01"), (-1_005, "-1.005"),
      (Int64.min, "-9223372036854775.808"),
    ])
  func `an amount has two digits after the point, three where they say more`(milliunits: Int64, text: String) {
    #expect(Price(milliunits: milliunits).text == text)
  }

  @Test(arguments: ["", ".99", "4.", "4,99", "4.9999", "-1", "+1", "1e3", "1.2.3", "$4.99", "1234567890", "٤", "4.٩"])
  func `a price that is none is refused`(text: String) { #expect(Price(text) == nil) }

  @Test(arguments: [
    ("P1M", BillingPeriod(count: 1, unit: .month)), ("P1Y", BillingPeriod(count: 1, unit: .year)),
    ("P2W", BillingPeriod(count: 2, unit: .week)), ("P3D", BillingPeriod(count: 3, unit: .day)),
  ])
  func `a period is read, and written as it was`(text: String, period: BillingPeriod) {
    #expect(BillingPeriod(text) == period)
    #expect(period.text == text)
  }

  @Test(arguments: ["", "P", "PM", "P0M", "1M", "P1", "P1H", "P1M1D", "P-1M", "P1000D", "p1m", "PT1M"])
  func `a period that is none is refused`(text: String) { #expect(BillingPeriod(text) == nil) }

  @Test(arguments: [
    ("P1M", "2026-01-15T12:00:00.123Z", "2026-02-15T12:00:00.123Z"),
    ("P1M", "2026-01-31T23:59:59Z", "2026-02-28T23:59:59Z"),
    ("P1M", "2026-12-31T00:00:00Z", "2027-01-31T00:00:00Z"), ("P6M", "2027-08-31T08:00:00Z", "2028-02-29T08:00:00Z"),
    ("P1Y", "2028-02-29T08:00:00Z", "2029-02-28T08:00:00Z"), ("P2W", "2026-02-20T08:00:00Z", "2026-03-06T08:00:00Z"),
    ("P3D", "1969-12-31T08:00:00Z", "1970-01-03T08:00:00Z"), ("P1M", "1969-12-31T08:00:00Z", "1970-01-31T08:00:00Z"),
  ])
  func `a period ends by the calendar`(text: String, begin: String, end: String) throws {
    let style = Date.ISO8601FormatStyle(includingFractionalSeconds: true)
    func date(_ text: String) throws -> Date { try (try? Date(text, strategy: .iso8601)) ?? style.parse(text) }
    let (period, begins, ends) = (try #require(BillingPeriod(text)), try date(begin), try date(end))
    #expect(period.end(from: begins) == ends)
  }

  @Test(arguments: ["UTC", "Europe/Berlin", "Asia/Calcutta", "America/Argentina/Ushuaia", "Etc/GMT+5"])
  func `a zone is known by its IANA name`(name: String) { #expect(TimeZone(ianaName: name)?.ianaName == name) }

  @Test(arguments: [
    "", "/", "EST", "GMT+5", "europe/berlin", "Europe/Berlni", "Mars/Phobos", "../etc/passwd", "Europe/Berlin ",
    "Europe\0/Berlin",
    "Europe/" + String(repeating: "x", count: 100),
  ])
  func `anything else is no zone`(name: String) { #expect(TimeZone(ianaName: name) == nil) }

  @Test func `the current offering is the one that is marked, else the first`() throws {
    let zone = try #require(TimeZone(ianaName: "UTC"))
    let offerings = ["a", "b"].map { Offering(name: $0, packages: []) }
    #expect(Plans(plans: [], offerings: offerings, timeZone: zone).currentOffering?.name == "a")
    let marked = offerings + [Offering(name: "c", isCurrent: true, packages: [])]
    #expect(Plans(plans: [], offerings: marked, timeZone: zone).currentOffering?.name == "c")
    #expect(Plans(plans: [], timeZone: zone).currentOffering == nil)
  }
}
