import Entitlements
import Testing

@testable import Access

@Suite struct FeatureTests {
  private static let tiers: [Tier] = ["free", "plus", "pro"]

  private func access(_ feature: Feature, _ tier: Tier, count: Int = 0, amount: Int = 1) throws -> FeatureAccess {
    let zone = try #require(Zone(named: "UTC"))
    let attempt = Attempt(at: try moment("2026-01-15"), in: zone, amount: amount)
    #expect(feature.questions(for: tier, attempt).isEmpty)
    return feature.access(for: tier, attempt, usage: Usage(total: count, []) { _ in UsageAnswer() })
  }

  @Test func `a tier without a value has the next lower tier's, below all none`() {
    let flag = Feature(name: "f", kind: .flag, values: ["plus": .flag(true)], tiers: Self.tiers)
    #expect(Self.tiers.map(flag.allowance) == [.flag(false), .flag(true), .flag(true)])
    let limit = Feature(name: "f", kind: .limit, values: ["plus": .limit(2)], tiers: Self.tiers)
    #expect(Self.tiers.map(limit.allowance) == [.limit(0), .limit(2), .limit(2)])
    let meter = Feature(name: "f", kind: .meter, values: ["pro": .meter([])], tiers: Self.tiers)
    let nothing = Allowance.meter([MeterRule(maximum: 0, window: .total)])
    #expect(Self.tiers.map(meter.allowance) == [nothing, nothing, .meter([])])
    let none = Feature(name: "f", kind: .flag, values: [:], tiers: Self.tiers)
    #expect(none.allowance(of: "pro") == .flag(false))
  }

  @Test func `a tier that the catalog lacks ranks above all`() throws {
    let flag = Feature(name: "f", kind: .flag, values: ["pro": .flag(true)], tiers: Self.tiers)
    #expect(try access(flag, "gold") == FeatureAccess(isAllowed: true))
    let off = Feature(name: "f", kind: .flag, values: ["pro": .flag(false)], tiers: Self.tiers)
    #expect(try access(off, "gold") == FeatureAccess(isAllowed: false))
  }

  @Test func `a flag is on or off, and names the tier that has it`() throws {
    let flag = Feature(name: "f", kind: .flag, values: ["plus": .flag(true)], tiers: Self.tiers)
    #expect(try access(flag, "free") == FeatureAccess(isAllowed: false, upgradeTo: "plus"))
    #expect(try access(flag, "pro") == FeatureAccess(isAllowed: true))
  }

  @Test(arguments: [
    (0, 1, true, 2), (1, 1, true, 1), (2, 1, false, 0), (0, 2, true, 2), (1, 2, false, 1), (2, 0, true, 0),
    (5, 1, false, 0), (5, 0, false, 0),
  ])
  func `a limit is on how many there may be`(count: Int, amount: Int, isAllowed: Bool, remaining: Int) throws {
    let limit = Feature(
      name: "children", kind: .limit, values: ["free": .limit(2), "pro": .limit(nil)], tiers: Self.tiers)
    #expect(
      try access(limit, "free", count: count, amount: amount)
        == FeatureAccess(
          isAllowed: isAllowed, limit: 2, current: count, remaining: remaining, upgradeTo: isAllowed ? nil : "pro"))
    #expect(try access(limit, "pro", count: count, amount: amount) == FeatureAccess(isAllowed: true, current: count))
  }

  @Test func `a limit of none refuses the first`() throws {
    let limit = Feature(name: "searches", kind: .limit, values: ["pro": .limit(10)], tiers: Self.tiers)
    #expect(
      try access(limit, "free")
        == FeatureAccess(isAllowed: false, limit: 0, current: 0, remaining: 0, upgradeTo: "pro"))
  }

  @Test func `only a meter depends on the past`() throws {
    let limit = Feature(name: "f", kind: .limit, values: ["free": .limit(1)], tiers: Self.tiers)
    #expect(limit.horizon == .zero)
    #expect(try meter(["free": ["1 in total"], "pro": ["unlimited"]]).horizon == .zero)
    #expect(try meter(["free": ["1 per day"], "pro": ["1 per month"]]).horizon == .seconds(32 * 86_400))
  }
}
