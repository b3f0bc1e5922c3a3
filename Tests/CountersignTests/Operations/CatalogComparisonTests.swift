import Entitlements
import Ledger
import Testing

@testable import Countersign

@Suite struct CatalogComparisonTests {
  private static func catalog(
    tiers: [Tier] = ["free", "pro", "premium"], _ products: [ProductID: Catalog.Product]
  ) throws -> Catalog { try Catalog(tiers: tiers, products: products) }

  private static func sentences(_ counts: [AccessCount], _ catalog: Catalog) -> [String] {
    CatalogComparison(counts, catalog: catalog).losses.map(\.sentence)
  }

  @Test func `a product that the catalog lacks is named with the one that was probably meant`() throws {
    let monthly = AccessCount(tier: "pro", product: "com.example.app.pro.monthly", users: 80)
    let catalog = try Self.catalog([
      "com.example.app.pro.monthlyy": .init(tier: "pro"), "com.example.app.pro.yearly": .init(tier: "pro"),
    ])
    let sentence =
      "80 of com.example.app.pro.monthly are kept, and it is not in the catalog; did you mean com.example.app.pro.monthlyy?"
    #expect(Self.sentences([monthly], catalog) == [sentence])
    let comparison = CatalogComparison([monthly], catalog: catalog)
    #expect(
      comparison.refusal(accepting: [], percent: 20) == """
        The catalog would take something from 80 of 80 subscribers, which is more than revalidation.max_downgrades allows \
        (20 %). \(sentence) Fix the catalog. If it is meant, list com.example.app.pro.monthly in catalog.accept_loss: then \
        the service starts, and nobody loses anything until somebody releases the downgrade brake.
        """)
    #expect(comparison.refusal(accepting: ["com.example.app.pro.monthly"], percent: 20) == nil)
    #expect(comparison.refusal(accepting: ["com.example.app.pro.yearly"], percent: 20) != nil)
    #expect(comparison.refusal(accepting: [], percent: 100) == nil)
  }

  @Test func `nothing is suggested that somebody has already, or that is nowhere near`() throws {
    let counts = [
      AccessCount(tier: "pro", product: "a.monthly1", users: 3),
      AccessCount(tier: "pro", product: "a.monthly2", users: 1),
    ]
    let catalog = try Self.catalog(["a.monthly2": .init(tier: "pro"), "a.weekly": .init(tier: "pro")])
    #expect(Self.sentences(counts, catalog) == ["3 of a.monthly1 are kept, and it is not in the catalog"])
    #expect(Self.sentences(counts, try Self.catalog([:])).count == 2)
  }

  @Test func `a lower tier, a tier that is gone and a purchase for life that ends are losses too`() throws {
    let counts = [
      AccessCount(tier: "premium", product: "yearly", users: 1), AccessCount(tier: "prro", product: "weekly", users: 2),
      AccessCount(tier: "premium", product: "forever", isForLife: true, users: 3),
      AccessCount(tier: "pro", product: "monthly", users: 4),
    ]
    let catalog = try Self.catalog([
      "yearly": .init(tier: "pro"), "weekly": .init(tier: "premium"), "forever": .init(tier: "premium"),
      "monthly": .init(tier: "premium"),
    ])
    #expect(
      Self.sentences(counts, catalog) == [
        "3 of forever are kept for life, and the catalog calls it a subscription",
        "2 of weekly are kept with the tier prro, and it is not in catalog.tiers; did you mean pro?",
        "1 of yearly is kept with the tier premium, and the catalog gives it pro",
      ])
    #expect(CatalogComparison(counts, catalog: catalog).total == 10)
  }

  @Test(arguments: [(20, false), (21, true), (1, false)])
  func `the share that may be lost is max_downgrades of those who have something, without a floor`(
    lost: Int, isRefused: Bool
  ) throws {
    let counts = [
      AccessCount(tier: "pro", product: "lost", users: lost),
      AccessCount(tier: "pro", product: "kept", users: 100 - lost),
      // Nobody can lose the lowest tier.
      AccessCount(tier: "free", product: "gift", users: 1_000),
    ]
    let comparison = CatalogComparison(counts, catalog: try Self.catalog(["kept": .init(tier: "pro")]))
    #expect(comparison.losses.map(\.product) == ["lost"])
    #expect((comparison.refusal(accepting: [], percent: 20) != nil) == isRefused)
  }

  @Test func `a tier that is gone refuses the start at any percentage, unless a tier says that it was this one`() throws
  {
    let counts = [
      AccessCount(tier: "gold", product: "a", users: 1), AccessCount(tier: "pro", product: "b", users: 999),
    ]
    let products: [ProductID: Catalog.Product] = ["a": .init(tier: "premium"), "b": .init(tier: "pro")]
    let gone = CatalogComparison(counts, catalog: try Self.catalog(products))
    #expect(
      gone.refusal(accepting: [], percent: 100) == """
        The catalog would take something from 1 of 1000 subscribers, and lacks a tier that some of them have. 1 of a is kept \
        with the tier gold, and it is not in catalog.tiers. Fix the catalog: a tier with a new name says what it was called, \
        formerly: …. If it is meant, list a in catalog.accept_loss: then the service starts, and nobody loses anything until \
        somebody releases the downgrade brake.
        """)
    #expect(gone.refusal(accepting: ["a"], percent: 1) == nil)
    let renamed = try Catalog(tiers: ["free", "pro", "premium"], products: products, formerNames: ["gold": "premium"])
    #expect(CatalogComparison(counts, catalog: renamed).losses.isEmpty)
    // The name is known, but the product gives less now.
    let lower = try Catalog(
      tiers: ["free", "pro", "premium"], products: ["a": .init(tier: "pro"), "b": .init(tier: "pro")],
      formerNames: ["gold": "premium"])
    #expect(Self.sentences(counts, lower) == ["1 of a is kept with the tier gold, and the catalog gives it pro"])
    #expect(CatalogComparison(counts, catalog: lower).refusal(accepting: [], percent: 20) == nil)
  }

  @Test func `a product that becomes a consumable is a loss`() throws {
    let counts = [AccessCount(tier: "pro", product: "coins", isForLife: true, users: 2)]
    let catalog = try Self.catalog(["coins": .init(tier: "free", kind: .consumable)])
    #expect(
      Self.sentences(counts, catalog) == [
        "2 of coins are kept with the tier pro, and the catalog calls it a consumable"
      ])
  }

  @Test func `an empty ledger loses nothing`() throws {
    let comparison = CatalogComparison([], catalog: try Self.catalog([:]))
    #expect(comparison.refusal(accepting: [], percent: 1) == nil)
    #expect(comparison.losses.isEmpty)
  }

  @Test func `a long list is cut`() throws {
    let counts = (0..<9).map { AccessCount(tier: "pro", product: ProductID("p\($0)"), users: 10 - $0) }
    let refusal = try #require(
      CatalogComparison(counts, catalog: try Self.catalog([:])).refusal(accepting: [], percent: 20))
    #expect(refusal.contains("6 of p4 are kept, and it is not in the catalog. So it is with 4 more. Fix"))
    #expect(refusal.contains("list p0, p1, p2, p3, p4 and 4 more in catalog.accept_loss"))
  }
}
