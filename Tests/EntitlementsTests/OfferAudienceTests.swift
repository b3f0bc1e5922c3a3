import Entitlements
import Testing

/// Who is who for an offer, by what was bought.
@Suite struct OfferAudienceTests {
  struct Case: CustomTestStringConvertible, Sendable {
    let name: String
    var evidence: [SubscriptionEvidence] = []
    var sandbox = SandboxPolicy.accept
    let expected: Set<OfferAudience>
    var testDescription: String { name }
  }

  private static let running = row("1", from: day(-20), until: day(10))

  static let cases: [Case] = [
    Case(name: "nothing is known", expected: [.never]),
    Case(name: "a running subscription", evidence: answer([running]), expected: [.tier("pro")]),
    Case(
      name: "renewal off, to the end", evidence: answer([running], [renewal(renews: false)]),
      expected: [.tier("pro")]),
    Case(name: "an ended one", evidence: answer([row("1")], [renewal(intent: 1)]), expected: [.expired]),
    Case(
      name: "a grace period", evidence: answer([row("1")], [renewal(grace: day(3))]), expected: [.tier("pro")]),
    Case(
      name: "a refunded one was bought all the same",
      evidence: answer([row("1", from: day(-20), until: day(10), cancelled: day(-1))]), expected: [.expired]),
    Case(
      name: "two tiers at once",
      evidence: answer([running, row("2", forever, of: "200", until: nil)]),
      expected: [.tier("pro"), .tier("premium")]),
    Case(
      name: "a lifetime purchase that was taken back",
      evidence: answer([row("2", forever, of: "200", until: nil, cancelled: day(-1))]), expected: [.expired]),
    Case(
      name: "one of a product that the catalog has no more", evidence: answer([row("1", unheardOf)]),
      expected: [.expired]),
    Case(
      name: "a consumable is none", evidence: answer([row("1", coins, until: nil)]), expected: [.never]),
    Case(
      name: "shared by the family, over: the user never bought", evidence: answer([row("1", ownership: .familyShared)]),
      expected: [.never]),
    Case(
      name: "shared by the family, running",
      evidence: answer([row("1", from: day(-20), until: day(10), ownership: .familyShared)]),
      expected: [.tier("pro")]),
    Case(
      name: "the sandbox, which does not count for the user", evidence: answer([running], in: .sandbox),
      sandbox: .reject, expected: [.never]),
    Case(
      name: "the sandbox, where it counts", evidence: answer([row("1")], in: .sandbox), expected: [.expired]),
    Case(
      name: "given away at RevenueCat",
      evidence: answer([row("1", of: "promotional:1", from: day(-20), until: day(10))], source: .revenuecat),
      expected: [.never]),
    Case(
      name: "bought at Google Play, over",
      evidence: answer([row("1", of: "play_store:1")], source: .revenuecat), expected: [.expired]),
  ]

  @Test(arguments: cases)
  func `a user belongs to the audience of the purchases`(one: Case) throws {
    let catalog = try makeCatalog()
    let rules = EntitlementRules(
      catalog: try Catalog(
        tiers: catalog.tiers,
        products: catalog.products.merging([coins: Catalog.Product(tier: "free", kind: .consumable)]) { $1 }),
      policy: EntitlementPolicy(), sandbox: one.sandbox)
    #expect(rules.audiences(of: "user-1", one.evidence, at: noon) == one.expected)
  }

  @Test func `a former name of a tier means the tier of today`() throws {
    let catalog = try Catalog(
      tiers: ["free", "plus"], products: [pro: .init(tier: "plus")], formerNames: ["pro": "plus"])
    let rules = EntitlementRules(catalog: catalog, policy: EntitlementPolicy(), sandbox: .accept)
    #expect(rules.audiences(of: "user-1", answer([Self.running]), at: noon) == [.tier("plus")])
  }
}

private let coins: ProductID = "app.coins"
