import Entitlements
import TestSupport
import Testing

import struct FoundationEssentials.Date

/// Given periods, beside purchases.
@Suite struct GivenPeriodTests {
  private static func given(
    _ id: Int64, _ tier: Tier = "pro", from start: Date = noon, until end: Date, kind: GivenPeriod.Kind = .support
  ) -> GivenPeriod {
    GivenPeriod(id: id, kind: kind, tier: tier, startsAt: start, endsAt: end)
  }

  private static func verdict(
    _ evidence: [SubscriptionEvidence] = [], _ given: [GivenPeriod], at now: Date = noon
  ) throws -> Entitlement {
    EntitlementRules(catalog: try makeCatalog(), policy: EntitlementPolicy(), sandbox: .accept)
      .evaluate("anna", evidence, given: given, at: now)
  }

  @Test(arguments: [(GivenPeriod.Kind.support, "granted", "grant"), (.trial, "trial", "trial")])
  func `a period gives its tier, with a reason of its own`(
    kind: GivenPeriod.Kind, reason: String, source: String
  ) throws {
    let verdict = try Self.verdict([], [Self.given(7, until: day(10), kind: kind)])
    #expect(verdict.tier == "pro" && verdict.status == .active)
    #expect(verdict.reason.rawValue == reason && verdict.source?.rawValue == source)
    #expect(verdict.explanation.givenBy == 7)
    #expect(verdict.expiresAt == day(10) && verdict.accessUntil == day(10))
    #expect(verdict.willRenew == false && verdict.isTrial == (kind == .trial))
    #expect(verdict.productID == nil && !verdict.isStale && !verdict.isProvisional)
  }

  @Test(arguments: [(-1.0, "free"), (0, "pro"), (9.999, "pro"), (10, "free"), (11, "free")])
  func `a given period includes its start, and excludes its end`(days: Double, tier: Tier) throws {
    #expect(try Self.verdict([], [Self.given(1, until: day(10))], at: day(days)).tier == tier)
  }

  @Test func `after its end the user reads as before it`() throws {
    let evidence = answer([row("1", until: day(-5))])
    let without = try Self.verdict(evidence, [], at: day(10))
    #expect(try Self.verdict(evidence, [Self.given(1, until: day(10))], at: day(10)) == without)
  }

  @Test func `the higher tier decides, and then what was paid`() throws {
    let paid = answer([row("1", until: day(10))], [renewal(renews: true)])
    let same = try Self.verdict(paid, [Self.given(1, until: day(30))])
    #expect(same.reason == .renewing && same.productID == pro)
    let higher = try Self.verdict(paid, [Self.given(1, "premium", until: day(3))])
    #expect(higher.tier == "premium" && higher.reason == .granted)
    #expect(higher.explanation.passedOver.first?.productID == pro)
    let lower = try Self.verdict(
      answer([row("1", forever, until: nil)]), [Self.given(1, until: day(30))])
    #expect(lower.tier == "premium" && lower.reason == .lifetime && lower.accessUntil == nil)
  }

  @Test func `the higher tier of two periods decides, then the one that ends last`() throws {
    let periods = [
      Self.given(1, until: day(10)), Self.given(2, until: day(20)), Self.given(3, "premium", until: day(5)),
    ]
    for order in [periods, periods.reversed()] {
      #expect(try Self.verdict([], order).explanation.givenBy == 3)
      #expect(try Self.verdict([], order, at: day(6)).explanation.givenBy == 2)
    }
  }

  @Test func `the end of access is that of unbroken access at this tier or above`() throws {
    let paid = answer([row("1", until: day(10))], [renewal(renews: false)])
    let behind = Self.given(1, from: day(5), until: day(40))
    #expect(try Self.verdict(paid, [behind]).accessUntil == day(40))
    #expect(try Self.verdict(paid, [behind]).expiresAt == day(10))
    let later = Self.given(2, from: day(11), until: day(40))
    #expect(try Self.verdict(paid, [later]).accessUntil == day(10))
    let chain = [Self.given(3, "premium", from: day(40), until: day(50)), behind]
    #expect(try Self.verdict(paid, chain).accessUntil == day(50))
    #expect(
      try Self.verdict([], [Self.given(4, until: day(1)), Self.given(5, from: day(1), until: day(2))]).accessUntil
        == day(2))
  }

  @Test func `a period that has begun while an ended purchase is held is seen`() throws {
    let held = answer(at: day(-2), [row("1", until: day(-1))], [renewal(renews: true)])
    #expect(try Self.verdict(held, []).isStale)
    #expect(try Self.verdict(held, [Self.given(1, until: day(30))]).accessUntil == day(30))
    #expect(try Self.verdict(held, [Self.given(1, from: day(1), until: day(30))]).accessUntil == day(-1))
  }

  @Test func `a tier that the catalog lacks, or the lowest, is nothing`() throws {
    #expect(try Self.verdict([], [Self.given(1, "gold", until: day(10))]).tier == "free")
    #expect(try Self.verdict([], [Self.given(1, "free", until: day(10))]).reason == .noPurchases)
  }

  @Test func `a tier that was renamed is given by its name of today`() throws {
    let catalog = try Catalog(tiers: ["free", "plus"], products: [:], formerNames: ["pro": "plus"])
    let rules = EntitlementRules(catalog: catalog, policy: EntitlementPolicy(), sandbox: .accept)
    let verdict = rules.evaluate("anna", [], given: [Self.given(1, until: day(10))], at: noon)
    #expect(verdict.tier == "plus" && verdict.reason == .granted)
  }

  @Test func `a catalog that lost the tier takes it from nobody while the period runs`() throws {
    let periods = [Self.given(1, "premium", until: day(10))]
    let recorded = try Self.verdict([], periods)
    let catalog = try Catalog(tiers: ["free", "pro"], products: [:])
    let rules = EntitlementRules(catalog: catalog, policy: EntitlementPolicy(), sandbox: .accept)
    let standing = rules.standing(of: "anna", [], given: periods, recorded: recorded, at: day(5))
    #expect(standing.tier == "premium" && standing.isStale)
    #expect(rules.standing(of: "anna", [], given: periods, recorded: recorded, at: day(10)).tier == "free")
    // Ended by a person: it is among the periods no longer.
    #expect(rules.standing(of: "anna", [], given: [], recorded: recorded, at: day(5)).tier == "free")
  }

  @Test func `both ends of a given period are moments at which a read may change`() throws {
    let rules = EntitlementRules(catalog: try makeCatalog(), policy: EntitlementPolicy(), sandbox: .accept)
    let period = Self.given(1, from: day(1), until: day(2))
    #expect(rules.nextChange(of: [], given: [period], recorded: nil, after: noon) == day(1))
    let next = rules.nextChange(of: [], given: [period], recorded: nil, after: day(1).withNanoseconds)
    #expect(next.map { $0 > day(1) && $0 <= day(2) } == true)
  }
}
