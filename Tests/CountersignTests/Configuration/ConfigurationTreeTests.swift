import Entitlements
import Testing

@testable import Countersign
@testable import CountersignServer

@Suite("Products and API keys")
struct ConfigurationTreeTests {
  static let hash = SampleConfiguration.hash

  @Test func `a product ID keeps its dots`() throws {
    let configuration = try loadYAML(
      SampleConfiguration().setting("catalog.products", nil).yaml.replacing(
        "catalog:\n",
        with: """
          catalog:
            products:
              com.example.app.pro.monthly: { tier: pro }
              com.example.app.forever: { tier: pro, kind: lifetime }
              "1234567890": { tier: free, kind: subscription }
              noted: { tier: free, kind: null }

          """))
    #expect(
      configuration.catalog.products == [
        "com.example.app.pro.monthly": Catalog.Product(tier: "pro"),
        "com.example.app.forever": Catalog.Product(tier: "pro", kind: .lifetime),
        "1234567890": Catalog.Product(tier: "free"), "noted": Catalog.Product(tier: "free"),
      ])
    #expect(configuration.catalog.tiers == ["free", "pro"])
    #expect(configuration.catalog.defaultTier == "free")
  }

  @Test(arguments: ["{}", "null", nil])
  func `a catalog without products is allowed and warned of`(products: String?) throws {
    let configuration = try SampleConfiguration().setting("catalog.products", products).load()
    #expect(configuration.catalog.products.isEmpty)
    #expect(configuration.warnings.map(\.origin) == ["catalog.products"])
  }

  @Test(
    arguments: [
      ("{a: {tier: prro}}", "product \"a\": catalog.tiers does not list the tier \"prro\"; did you mean pro?"),
      (
        "{a: {tier: pro, kind: rental}}",
        "product \"a\": kind must be subscription, lifetime, consumable or non_renewing, not \"rental\""
      ),
      ("{a: {tier: pro, kind: consumable}}", "product \"a\": a consumable gives no tier"),
      ("{a: {tier: pro, kind: [x]}}", "product \"a\": kind must be a single value"),
      (
        "{a: {tier: pro, period: monthly}}",
        "product \"a\": period must be such as P1W, P1M, P6M or P1Y, not \"monthly\""
      ),
      ("{a: {tier: pro, kind: lifetime, period: P1M}}", "product \"a\": only a subscription has a period"),
      (
        "{a: {tier: pro, price: 4.99}}",
        "product \"a\": price must be a mapping from currency to amount, such as {USD: 4.99}"
      ),
      (
        "{a: {tier: pro, price: {}}}",
        "product \"a\": price must be a mapping from currency to amount, such as {USD: 4.99}"
      ),
      (
        "{a: {tier: pro, price: {usd: 4.99}}}",
        "product \"a\": price: a currency must be three capitals such as USD, not \"usd\""
      ),
      (
        "{a: {tier: pro, price: {USD: $4.99}}}",
        "product \"a\": price in USD must be an amount such as 4.99, not \"$4.99\""
      ),
      ("{a: {tier: pro, price: {USD: [4]}}}", "product \"a\": price in USD must be a single value"),
      ("{a: {kind: lifetime}}", "product \"a\" lacks tier"),
      ("{a: {tier: null}}", "product \"a\" lacks tier"),
      (
        "{a: {teir: pro}}",
        "product \"a\" has a key that is none of tier, name, kind, period, price, active, offers, introductory_offer; did you mean tier?"
      ),
      (
        "{a: pro}",
        "product \"a\" must be a mapping {tier, name, kind, period, price, active, offers, introductory_offer}"
      ),
      ("{a: {tier: [pro]}}", "product \"a\": tier must be a single value"),
      ("{\"a b\": {tier: pro}}", "a product ID must be one word"),
      ("{\"\": {tier: pro}}", "a product ID must be one word"),
      ("{[a]: {tier: pro}}", "a product ID must be one word"),
    ])
  func `a bad product is one problem with its line`(products: String, says: String) throws {
    let problems = SampleConfiguration().setting("catalog.products", products).problems()
    #expect(problems == ["catalog.products in countersign.yaml line 7: \(says)"])
  }

  @Test func `each product is reported on its own line`() throws {
    let yaml = SampleConfiguration().setting(
      "catalog.products", "\n    a: {tier: x}\n    b: {tier: pro}\n    c: {tier: y}"
    ).yaml
    let problems = problemsOf(yaml)
    #expect(
      problems.map { $0.prefix { $0 != ":" } } == [8, 10].map { "catalog.products in countersign.yaml line \($0)" })
  }

  @Test func `products are checked though the tiers are wrong`() {
    let problems = SampleConfiguration().setting("catalog.tiers", "[a, a]")
      .setting("catalog.products", "{a: {tier: a, kind: x}, b: {tier: a}}").problems()
    #expect(problems.count == 2)
    #expect(problems.last?.contains("product \"a\": kind must be") == true, "\(problems)")
  }

  @Test func `API keys have a name, a role and a digest`() throws {
    let text =
      "[{name: cron, role: service, sha256: \"\(Self.hash)\"}, "
      + "{name: Desk.1, role: support, sha256: \(SampleConfiguration.otherHash)}]"
    let keys = try SampleConfiguration().setting("auth.api_keys", text).load().auth.apiKeys
    #expect(keys.map(\.name) == ["cron", "Desk.1"])
    #expect(keys.map(\.roles) == [[.service], [.support]])
    #expect(keys.first?.digest.bytes.prefix(4) == [0x01, 0x23, 0x45, 0x67])
    #expect(keys.last?.digest.bytes.prefix(4) == [0xfe, 0xdc, 0xba, 0x98])
    #expect(keys.allSatisfy { $0.digest.bytes.count == 32 })
  }

  @Test func `an API key may have both roles`() throws {
    for roles in ["roles: [service, support]", "roles: [support, service]"] {
      let text = "[{name: owner, \(roles), sha256: \"\(Self.hash)\"}]"
      let keys = try SampleConfiguration().setting("auth.api_keys", text).load().auth.apiKeys
      #expect(keys.map(\.roles) == [[.service, .support]])
    }
  }

  @Test(
    arguments: [
      ("{name: a, role: admin, sha256: H}", "\"a\": role must be service or support, not \"admin\""),
      (
        "{name: a, role: suport, sha256: H}",
        "\"a\": role must be service or support, not \"suport\"; did you mean support?"
      ),
      ("{role: service, sha256: H}", "an API key lacks name"),
      ("{name: a, sha256: H}", "an API key lacks role"),
      ("{name: a, role: service}", "an API key lacks sha256"),
      ("{name: a, role: service, roles: [support], sha256: H}", "\"a\" has both role and roles; keep one of them"),
      ("{name: a, roles: [], sha256: H}", "\"a\": roles is empty"),
      ("{name: a, roles: [service, admin], sha256: H}", "\"a\": roles must be service or support, not \"admin\""),
      ("{name: a, roles: {b: c}, sha256: H}", "\"a\": roles must be a word or a list of words"),
      ("{name: \"a b\", role: service, sha256: H}", "name must be up to 64 letters, digits and . _ -"),
      ("{name: a, role: service, sha256: abc}", "\"a\": sha256 must be the SHA-256 of the key in 64 lower-case"),
      ("{name: a, role: service, sha256: UPPER}", "\"a\": sha256 must be the SHA-256 of the key in 64 lower-case"),
      ("{name: a, role: service, key: x}", "an API key has a key that is none of name, role, roles, sha256"),
      ("a", "an API key must be a mapping {name, role, roles, sha256}"),
      ("{name: cron, role: support, sha256: OTHER}", "the name \"cron\" is given twice"),
      ("{name: b, role: support, sha256: FIRST}", "\"b\" has the same sha256 as \"cron\""),
    ])
  func `a bad API key is one problem with its line`(item: String, says: String) throws {
    let item = item.replacing("FIRST", with: Self.hash).replacing("OTHER", with: SampleConfiguration.otherHash)
      .replacing("UPPER", with: "\"\(SampleConfiguration.otherHash.uppercased())\"")
      .replacing("sha256: H", with: "sha256: \(SampleConfiguration.otherHash)")
    let text = "\n    - {name: cron, role: service, sha256: \"\(Self.hash)\"}\n    - \(item)"
    let problems = SampleConfiguration().setting("auth.api_keys", text).problems()
    #expect(problems.count == 1)
    #expect(problems.first?.hasPrefix("auth.api_keys in countersign.yaml line 7: \(says)") == true, "\(problems)")
  }
}
