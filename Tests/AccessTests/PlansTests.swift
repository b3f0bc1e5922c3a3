import Access
import Entitlements
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

  @Test func `the current offering is the one that is marked, else the first`() throws {
    let offerings = ["a", "b"].map { Offering(name: $0, packages: []) }
    #expect(Plans(plans: [], offerings: offerings, timeZone: .utc).currentOffering?.name == "a")
    let marked = offerings + [Offering(name: "c", isCurrent: true, packages: [])]
    #expect(Plans(plans: [], offerings: marked, timeZone: .utc).currentOffering?.name == "c")
    #expect(Plans(plans: [], timeZone: .utc).currentOffering == nil)
  }

  @Test func `a retired product is in no offering, and an offering of nothing else is gone`() {
    let offerings = [
      Offering(name: "old", isCurrent: true, packages: [.init(name: "$rc_monthly", product: "old.monthly")]),
      Offering(
        name: "new",
        packages: [.init(name: "a", product: "old.monthly"), .init(name: "b", product: "new.monthly")]),
    ]
    let plans = Plans(
      plans: [], terms: ["old.monthly": .init(isActive: false), "new.monthly": .init(name: "Monthly")],
      offerings: offerings, timeZone: .utc)
    #expect(plans.offerings == [Offering(name: "new", packages: [.init(name: "b", product: "new.monthly")])])
    #expect(plans.currentOffering?.name == "new")
  }

  @Test func `nobody is sent to a retired tier`() {
    let tiers: [Tier] = ["free", "pro", "premium"]
    func upgrade(retired: Set<Tier>) -> Tier? {
      let feature = Feature(name: "export", kind: .flag, values: ["pro": .flag(true)], tiers: tiers, retired: retired)
      let now = Date(timeIntervalSince1970: 1_768_478_400.123_456_789)
      return feature.access(for: "free", at: now, in: .utc, after: []).upgradeTo
    }
    #expect(upgrade(retired: []) == "pro")
    #expect(upgrade(retired: ["pro"]) == "premium")
    #expect(upgrade(retired: ["pro", "premium"]) == nil)
  }
}
