import Entitlements
import Testing

import struct FoundationEssentials.Date

@Suite struct BillingPeriodTests {
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
    ("P1M", "2024-01-31T12:00:00.001Z", "2024-02-29T12:00:00.001Z"),
    ("P1M", "2023-01-31T12:00:00Z", "2023-02-28T12:00:00Z"),
    ("P1M", "2024-02-29T00:00:00Z", "2024-03-29T00:00:00Z"), ("P11M", "2024-02-29T00:00:00Z", "2025-01-29T00:00:00Z"),
    ("P12M", "2023-12-31T23:59:59.999Z", "2024-12-31T23:59:59.999Z"),
    ("P1Y", "2024-02-29T08:00:00Z", "2025-02-28T08:00:00Z"),
    ("P2W", "2024-02-20T08:00:00Z", "2024-03-05T08:00:00Z"), ("P90D", "2024-12-01T00:00:00Z", "2025-03-01T00:00:00Z"),
    ("P1M", "1969-12-31T12:00:00Z", "1970-01-31T12:00:00Z"),
  ])
  func `months and years go by the calendar, in UTC`(period: String, start: String, end: String) throws {
    let begin = try #require(Date(rfc3339: start))
    let evidence = answer([row("1", season, from: begin, until: nil)])
    let length = try #require(BillingPeriod(period))
    let catalog = try Catalog(
      tiers: ["free", "pro"],
      products: [season: .init(tier: "pro", kind: .nonRenewing, period: length)])
    let verdict = Entitlement.evaluate(evidence, at: noon, catalog: catalog, policy: EntitlementPolicy())
    #expect(verdict.expiresAt?.rfc3339 == end)
  }
}

extension Date {
  /// Reads RFC 3339, in UTC.
  fileprivate init?(rfc3339 text: String) {
    guard let date = try? Date(text, strategy: .iso8601.year().month().day().time(includingFractionalSeconds: true))
    else {
      guard let whole = try? Date(text, strategy: .iso8601) else { return nil }
      self = whole
      return
    }
    self = date
  }
}
