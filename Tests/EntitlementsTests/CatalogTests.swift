import Testing

import struct FoundationEssentials.Date

@testable import Entitlements

@Suite struct CatalogTests {
  private static let coins: ProductID = "com.example.app.coins"

  private func rules(_ catalog: Catalog) -> EntitlementRules {
    EntitlementRules(catalog: catalog, policy: EntitlementPolicy(), sandbox: .accept)
  }

  private func withCoins() throws -> Catalog {
    let catalog = try makeCatalog()
    var products = catalog.products
    // A consumable gives no tier, even with one in its entry.
    products[Self.coins] = .init(tier: "premium", kind: .consumable)
    return try Catalog(tiers: catalog.tiers, products: products)
  }

  @Test func `a consumable gives no tier, and is no purchase that the catalog lacks`() throws {
    let rules = rules(try withCoins())
    let bought = answer([row("1", Self.coins, until: nil)])
    let verdict = rules.evaluate("u", bought, at: noon)
    #expect(verdict.tier == "free")
    #expect(verdict.status == .active)
    #expect(verdict.reason == .noPurchases)
    #expect(verdict.explanation.passedOver.isEmpty)
    let surroundings = rules.surroundings(of: bought)
    for evidence in bought {
      #expect(rules.nextCheck(of: evidence, among: surroundings, at: noon) == nil)
      // It has an owner like any other.
      #expect(rules.isCatalogued(evidence))
    }
  }

  @Test func `a consumable beside a subscription changes nothing of it`() throws {
    let rules = rules(try withCoins())
    let alone = answer([row("1", until: day(10))])
    let both = answer([
      row("1", until: day(10)), row("2", Self.coins, until: nil), row("3", Self.coins, until: day(50)),
    ])
    let verdict = rules.evaluate("u", both, at: noon)
    #expect(verdict == rules.evaluate("u", alone, at: noon))
    #expect(verdict.tier == "pro")
    let refunded = answer([row("1", until: day(10)), row("2", Self.coins, until: nil, cancelled: day(-1))])
    #expect(rules.evaluate("u", refunded, at: noon).tier == "pro")
  }

  @Test func `a tier is known by its former name, and keeps its rank`() throws {
    let renamed = try Catalog(
      tiers: ["free", "family"], products: [:], formerNames: ["pro": "family", "gold": "family"])
    #expect(renamed.rank(of: "pro") == 1 && renamed.rank(of: "gold") == 1)
    #expect(renamed.lists("pro") && renamed.lists("family") && !renamed.lists("silver"))
    #expect(renamed.current("pro") == "family" && renamed.current("free") == "free")
    #expect(renamed.rank(of: "silver") == .max)
  }

  @Test func `a tier is not lost by its new name, and a withheld one is told by it`() throws {
    let recorded = rules(try makeCatalog()).evaluate("u", answer([row("1", until: day(10))]), at: noon)
    #expect(recorded.tier == "pro")
    let family = try Catalog(
      tiers: ["free", "family"], products: [pro: .init(tier: "family")], formerNames: ["pro": "family"])
    let verdict = rules(family).evaluate("u", answer([row("1", until: day(10))]), at: noon)
    #expect(verdict.tier == "family")
    #expect(!rules(family).isLowering(recorded, verdict))
    // The product is gone: what was recorded stands, by the name of today.
    let without = try Catalog(tiers: ["free", "family"], products: [:], formerNames: ["pro": "family"])
    let standing = rules(without).standing(of: "u", answer([row("1", until: day(10))]), recorded: recorded, at: noon)
    #expect(standing.tier == "family" && standing.isStale)
  }

  @Test func `a former name is of one tier of today, and of none that is listed`() throws {
    #expect(throws: Catalog.Invalid.duplicateTier("free")) {
      try Catalog(tiers: ["free", "pro"], products: [:], formerNames: ["free": "pro"])
    }
    #expect(throws: Catalog.Invalid.unknownSuccessor("plus", of: "gold")) {
      try Catalog(tiers: ["free", "pro"], products: [:], formerNames: ["gold": "plus"])
    }
  }
}
