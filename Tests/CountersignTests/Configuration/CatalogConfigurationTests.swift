import Access
import Entitlements
import Foundation
import Testing

@testable import Countersign
@testable import CountersignServer

@Suite("Plans, features and offerings")
struct CatalogConfigurationTests {
  private static let sample = SampleConfiguration()
    .setting("catalog.tiers", "[free, pro]").setting(
      "catalog.products", "{app.pro: {tier: pro}, app.coins: {kind: consumable}}")

  private static func plans(_ key: String, _ text: String) throws -> Plans {
    try sample.setting("catalog.\(key)", text).load().plans
  }

  // MARK: - Tiers and products

  @Test func `tiers are words, or have names`() throws {
    let configuration = try SampleConfiguration().setting(
      "catalog.tiers",
      "\n    - free: { name: Discovery }\n    - plus\n    - pro: { name: Family Pro, description: All of it, formerly: [gold, max] }"
    ).load()
    #expect(configuration.catalog.tiers == ["free", "plus", "pro"])
    #expect(configuration.catalog.formerNames == ["gold": "pro", "max": "pro"])
    #expect(
      configuration.plans.plans == [
        .init(tier: "free", name: "Discovery"), .init(tier: "plus"),
        .init(tier: "pro", name: "Family Pro", description: "All of it"),
      ])
  }

  @Test(arguments: [
    ("pro: {nam: x}", "tier \"pro\" has a key that is none of name, description, formerly, active; did you mean name?"),
    ("pro: x", "tier \"pro\" must be a mapping {name, description, formerly, active}"),
    ("pro: {active: no}", "tier \"pro\": active must be true or false, not \"no\""),
    ("pro: {name: [x]}", "tier \"pro\": name must be a single value"),
    ("pro: {name: \"\"}", "tier \"pro\": name must be 1 to 200 characters on one line"),
    ("pro: {name: \"a\\nb\"}", "tier \"pro\": name must be 1 to 200 characters on one line"),
    ("pro: {formerly: free}", "tier \"pro\": formerly names \"free\", which is a tier of today"),
    ("pro: {formerly: [a, a]}", "tier \"pro\": formerly names \"a\", as another does"),
    ("pro: {formerly: {a: b}}", "tier \"pro\": formerly must be a word or a list of words"),
  ])
  func `a bad tier is one problem with its line`(item: String, says: String) {
    let problems = SampleConfiguration().setting("catalog.tiers", "\n    - free\n    - \(item)").problems()
    #expect(problems == ["catalog.tiers in countersign.yaml line 10: \(says)"])
  }

  @Test func `a product of the lowest tier is warned of: the tiers may be in descending order`() throws {
    let sample = Self.sample.setting("catalog.products", "\n    a: {tier: pro}\n    c: {kind: consumable}")
    #expect(try sample.load().warnings.isEmpty)
    let warnings = try sample.setting("catalog.tiers", "[pro, free]").load().warnings.map(\.description)
    #expect(
      warnings == [
        "catalog.products in countersign.yaml line 8: product \"a\": tier is the lowest one, which everybody has; are the "
          + "tiers in ascending order?"
      ])
  }

  @Test func `products have periods and exact prices, and a consumable has no tier`() throws {
    let configuration = try SampleConfiguration().setting(
      "catalog.products",
      """

          a: { tier: pro, period: P1M, price: { USD: 4.99, JPY: 600, EUR: 4.490 } }
          b: { tier: pro, kind: lifetime, price: { USD: 0.1 } }
          c: { kind: consumable }
          d: { tier: pro }
      """
    ).load()
    let terms = configuration.plans.terms
    #expect(terms["a"]?.period == BillingPeriod(count: 1, unit: .month))
    #expect(terms["a"]?.prices.mapValues(\.milliunits) == ["USD": 4_990, "JPY": 600_000, "EUR": 4_490])
    #expect(terms["b"]?.prices.mapValues(\.milliunits) == ["USD": 100])
    #expect(terms["c"] == nil && terms["d"] == nil)
    #expect(configuration.catalog.products["c"] == Catalog.Product(tier: "free", kind: .consumable))
  }

  // MARK: - Offers

  private static func offers(_ members: String) -> SampleConfiguration {
    let key = "\"\(ServerAPIConfigurationTests.pem.replacing("\n", with: "\\n"))\""
    return sample.setting("catalog.products", "{app.pro: {tier: pro, \(members)}}").setting(
      "app_store.offers", "{key: \(key), key_id: ABC, issuer_id: \(ServerAPIConfigurationTests.issuer)}")
  }

  @Test func `a product has offers, each for whom it says`() throws {
    let terms = try Self.offers(
      "offers: {winter: [expired, pro], com.example.first: never}, introductory_offer: [never, expired]"
    ).load().plans.terms["app.pro"]
    #expect(
      terms?.offers == [
        PromotionalOffer(id: "winter", audiences: [.expired, .tier("pro")]),
        PromotionalOffer(id: "com.example.first", audiences: [.never]),
      ])
    #expect(terms?.introductoryOffer == [.never, .expired])
  }

  @Test(arguments: [
    ("offers: [winter]", "offers must be a mapping from offer to who may have it, such as {winter: [expired]}"),
    ("offers: {}", "offers must be a mapping from offer to who may have it, such as {winter: [expired]}"),
    ("offers: {winter: []}", "offer \"winter\" is for nobody"),
    ("offers: {winter: {a: b}}", "offer \"winter\" must be a word or a list of words"),
    (
      "offers: {winter: [pr]}",
      "offer \"winter\" is for never, expired, or a tier of catalog.tiers, not \"pr\"; did you mean pro?"
    ),
    (
      "offers: {\"a b\": never}",
      "an offer's identifier must be 1 to 64 letters, digits or _ - . $, and not begin with - or ."
    ),
    (
      "introductory_offer: expire",
      "introductory_offer is for never, expired, or a tier of catalog.tiers, not \"expire\"; did you mean expired?"
    ),
  ])
  func `an offer that cannot be is one problem`(members: String, says: String) {
    let problems = Self.offers(members).problems()
    #expect(problems.count == 1 && problems.first?.hasSuffix("product \"app.pro\": \(says)") == true, "\(problems)")
  }

  @Test func `offers want a subscription, and a key`() {
    let lifetime = Self.offers("kind: lifetime, offers: {winter: never}").problems()
    #expect(lifetime.count == 1 && lifetime.first?.contains("only a subscription has offers") == true, "\(lifetime)")
    let keyless = Self.offers("offers: {winter: never}").setting("app_store.offers", nil).problems()
    #expect(keyless.count == 1 && keyless.first?.contains("has offers, and no key signs them") == true, "\(keyless)")
  }

  // MARK: - Original purchases

  @Test func `an original purchase is judged by a version, or by a day`() throws {
    let configuration = try Self.sample.setting(
      "catalog.original_purchase",
      "[{before_version: \"3.0\", tier: pro}, {before: 2026-01-15, tier: pro}, {before: \"2026-01-15T12:00:00Z\", tier: pro}]"
    ).load()
    let day = Date(timeIntervalSince1970: 1_768_435_200)
    let version = try #require(AppVersion("3"))
    #expect(
      configuration.catalog.originalPurchase == [
        .init(before: .version(version), tier: "pro"), .init(before: .date(day), tier: "pro"),
        .init(before: .date(day + 43_200), tier: "pro"),
      ])
  }

  @Test(arguments: [
    ("{tier: pro}", "an original purchase has either before_version or before"),
    ("{tier: pro, before: 2026-01-15, before_version: 3}", "an original purchase has either before_version or before"),
    ("{before_version: 3}", "an original purchase lacks tier"),
    (
      "{before_version: 3, tier: prp}",
      "an original purchase: catalog.tiers does not list the tier \"prp\"; did you mean pro?"
    ),
    ("{before_version: 3, tier: free}", "an original purchase: everybody has the tier \"free\""),
    (
      "{before_version: 3.0b1, tier: pro}",
      "an original purchase: before_version must be numbers with dots between them such as \"3.0\", not \"3.0b1\""
    ),
    (
      "{before: yesterday, tier: pro}",
      "an original purchase: before must be a day such as 2026-01-15 or a time such as 2026-01-15T12:00:00Z, not \"yesterday\""
    ),
    ("3.0", "an original purchase must be a mapping {before_version, before, tier}"),
  ])
  func `a bad original purchase is one problem`(item: String, says: String) {
    let problems = Self.sample.setting("catalog.original_purchase", "[\(item)]").problems()
    #expect(problems.count == 1 && problems.first?.hasSuffix(says) == true, "\(problems)")
  }

  // MARK: - Features

  @Test func `features are flags, limits and meters`() throws {
    let plans = try Self.plans(
      "features",
      """

          filters: { pro: true }
          children: { kind: limit, free: 2, pro: unlimited }
          questions: { kind: meter, free: 10 per month, pro: [40 per day, 5 per rolling 1h] }
          recipes: { kind: meter, pro: [unlimited, 10 per day] }
          off: { kind: flag, free: true, pro: false }
      """)
    #expect(plans.features.map(\.name) == ["filters", "children", "questions", "recipes", "off"])
    func allowances(_ name: FeatureName) -> [Allowance?] {
      ["free", "pro"].map { plans.feature(named: name)?.allowance(of: $0) }
    }
    #expect(allowances("filters") == [.flag(false), .flag(true)])
    #expect(allowances("children") == [.limit(2), .limit(nil)])
    let hour = MeterRule(maximum: 5, window: .rolling(.seconds(3600)))
    #expect(
      allowances("questions") == [
        .meter([MeterRule(maximum: 10, window: .month)]), .meter([MeterRule(maximum: 40, window: .day), hour]),
      ])
    #expect(
      allowances("recipes") == [
        .meter([MeterRule(maximum: 0, window: .total)]), .meter([MeterRule(maximum: 10, window: .day)]),
      ])
    #expect(allowances("off") == [.flag(true), .flag(false)])
  }

  @Test(arguments: [
    ("f: true", "feature \"f\" must be a mapping from tier to value"),
    ("f: {}", "feature \"f\" says of no tier what it has"),
    ("f: {kind: limit}", "feature \"f\" says of no tier what it has"),
    ("\"f/g\": {pro: true}", "a feature's name must be 1 to 64 letters, digits or _ - . $, and not begin with - or ."),
    ("..: {pro: true}", "a feature's name must be 1 to 64 letters"),
    (
      "f: {kind: metre, pro: 1}", "feature \"f\": kind must be flag, limit or meter, not \"metre\"; did you mean meter?"
    ),
    ("f: {kind: [flag], pro: true}", "feature \"f\": kind must be a single value"),
    ("f: {prro: true}", "feature \"f\": catalog.tiers does not list the tier \"prro\"; did you mean pro?"),
    ("f: {pro: yes}", "feature \"f\": pro must be true or false, not \"yes\""),
    ("f: {pro: 2}", "feature \"f\": pro must be true or false; a number needs kind: limit"),
    ("f: {pro: 10 per day}", "feature \"f\": pro must be true or false; a meter's rules need kind: meter"),
    ("f: {pro: [true]}", "feature \"f\": pro must be a single value"),
    ("f: {kind: limit, pro: -1}", "feature \"f\": pro must be a whole number, not \"-1\""),
    ("f: {kind: limit, pro: 1.5}", "feature \"f\": pro must be a whole number, not \"1.5\""),
    ("f: {kind: limit, pro: 9999999999}", "feature \"f\": pro must be from 0 to 1000000000"),
    ("f: {kind: limit, pro: [1]}", "feature \"f\": pro must be a single value"),
    (
      "f: {kind: meter, pro: 10 per mounth}",
      "feature \"f\": pro must be per day, week, month or rolling and a duration such as 7d, not \"mounth\"; did you mean month?"
    ),
    ("f: {kind: meter, pro: unlimitd}", "not \"unlimitd\"; did you mean unlimited?"),
    ("f: {kind: meter, pro: 10}", "feature \"f\": pro must be a rule such as 40 per day"),
    ("f: {kind: meter, pro: []}", "feature \"f\": pro must be a rule such as 10 per month, or a list of rules"),
    ("f: {kind: meter, pro: {day: 1}}", "feature \"f\": pro must be a rule such as 10 per month, or a list of rules"),
    ("f: {kind: meter, pro: [1 per day, 1 per yaer]}", "not \"yaer\""),
  ])
  func `a bad feature is one problem with its line`(feature: String, says: String) throws {
    let problem = try Self.sample.setting("catalog.features", "\n    good: { pro: true }\n    \(feature)").problem()
    #expect(problem.hasPrefix("catalog.features in countersign.yaml line 9: ") && problem.contains(says), "\(problem)")
  }

  @Test func `a value is reported on its own line`() throws {
    let problems = Self.sample.setting("catalog.features", "\n    f:\n      free: false\n      pro: maybe").problems()
    #expect(
      problems.count == 1 && problems[0].hasPrefix("catalog.features in countersign.yaml line 10: "), "\(problems)")
  }

  @Test func `a retired product or plan counts as before, and no offering has it`() throws {
    let configuration = try SampleConfiguration().setting(
      "catalog.tiers", "\n    - free\n    - pro\n    - gold: { active: false }"
    ).setting(
      "catalog.products",
      """

          a: { tier: pro, name: Pro by the month }
          b: { tier: pro, active: false, price: { USD: 4.99 } }
          c: { tier: gold, period: P1M }
      """
    ).setting(
      "catalog.offerings", "\n    o: { packages: { m: a, y: b, g: c } }\n    p: { packages: { y: b } }"
    ).load()
    #expect(configuration.catalog.products.mapValues(\.tier) == ["a": "pro", "b": "pro", "c": "gold"])
    #expect(configuration.plans.plans.map(\.isActive) == [true, true, false])
    #expect(
      configuration.plans.terms == [
        "a": .init(name: "Pro by the month"), "b": .init(isActive: false, prices: ["USD": Price(milliunits: 4_990)]),
        "c": .init(isActive: false, period: BillingPeriod("P1M")),
      ])
    #expect(configuration.plans.offerings == [Offering(name: "o", packages: [.init(name: "m", product: "a")])])
  }

  // MARK: - Offerings and experiments

  @Test func `offerings keep their order, and metadata its types`() throws {
    let plans = try Self.plans(
      "offerings",
      """

          sale:
            packages: { $rc_monthly: app.pro, coins: app.coins }
            metadata: { best: $rc_monthly, rank: 1, share: 0.5, on: true, quoted: "1", none: null, list: [1, {a: b}] }
          default: { current: true, packages: { $rc_annual: app.pro } }
      """)
    #expect(plans.offerings.map(\.name) == ["sale", "default"])
    #expect(plans.currentOffering?.name == "default")
    let sale = try #require(plans.offerings.first)
    #expect(
      sale.packages == [.init(name: "$rc_monthly", product: "app.pro"), .init(name: "coins", product: "app.coins")])
    #expect(
      sale.metadata == [
        "best": .text("$rc_monthly"), "rank": .integer(1), "share": .number(0.5), "on": .boolean(true),
        "quoted": .text("1"), "none": .null, "list": .list([.integer(1), .mapping(["a": .text("b")])]),
      ])
  }

  @Test(arguments: [
    (
      "{packages: {m: app.prro}}",
      "offering \"o\": catalog.products does not list the product \"app.prro\"; did you mean app.pro?"
    ),
    ("{current: true}", "offering \"o\" lacks packages"), ("app.pro", "offering \"o\" must be a mapping"),
    ("{packages: [app.pro]}", "offering \"o\": packages must be a mapping from name to product ID"),
    ("{packages: {}}", "offering \"o\": packages must be a mapping from name to product ID"),
    ("{packages: {\"a b\": app.pro}}", "offering \"o\": a package's name must be 1 to 64 letters"),
    ("{packages: {m: [app.pro]}}", "offering \"o\": package \"m\" must be a single value"),
    ("{packages: {m: app.pro}, current: 1}", "offering \"o\": current must be true or false, not \"1\""),
    ("{packages: {m: app.pro}, current: true}", "offering \"o\" is current, and so is \"first\""),
    ("{packages: {m: app.pro}, metadata: x}", "offering \"o\": metadata must be a mapping of JSON values"),
    ("{packages: {m: app.pro}, title: x}", "offering \"o\" has a key that is none of current, packages, metadata"),
  ])
  func `a bad offering is one problem with its line`(offering: String, says: String) throws {
    let first = "first: { current: true, packages: { m: app.pro } }"
    let problem = try Self.sample.setting("catalog.offerings", "\n    \(first)\n    o: \(offering)").problem()
    #expect(problem.hasPrefix("catalog.offerings in countersign.yaml line 9: ") && problem.contains(says), "\(problem)")
  }

  @Test func `experiments keep the order of variants`() throws {
    let plans = try Self.plans(
      "experiments", "{ e: { variants: { z: 34, a: 0.5, none: 0 } }, f: { variants: { a: 1 }, salt: pepper } }")
    #expect(
      plans.experiments == [
        Experiment(
          name: "e", salt: "e",
          variants: [.init(name: "z", weight: 34), .init(name: "a", weight: 0.5), .init(name: "none", weight: 0)]),
        Experiment(name: "f", salt: "pepper", variants: [.init(name: "a", weight: 1)]),
      ])
  }

  @Test(arguments: [
    ("{}", "experiment \"e\" lacks variants"), ("[a, b]", "experiment \"e\" must be a mapping {variants, salt}"),
    ("{variants: [a, b]}", "experiment \"e\": variants must be a mapping from name to weight"),
    ("{variants: {}}", "experiment \"e\" has no variant with a weight"),
    ("{variants: {a: 0}}", "experiment \"e\" has no variant with a weight"),
    ("{variants: {a: -1, b: 1}}", "experiment \"e\": the weight of a must be a number such as 50 or 0.5, not \"-1\""),
    ("{variants: {a: [1], b: 1}}", "experiment \"e\": the weight of a must be a number such as 50 or 0.5"),
    ("{variants: {a: nan, b: 1}}", "experiment \"e\": the weight of a must be a number"),
    ("{variants: {\"a b\": 1}}", "experiment \"e\": a variant's name must be 1 to 64 letters"),
    ("{variants: {a: 1}, salt: \"\"}", "experiment \"e\": salt must be 1 to 200 characters on one line"),
  ])
  func `a bad experiment is one problem with its line`(experiment: String, says: String) throws {
    let problem = try Self.sample.setting("catalog.experiments", "\n    e: \(experiment)").problem()
    #expect(
      problem.hasPrefix("catalog.experiments in countersign.yaml line 8: ") && problem.contains(says), "\(problem)")
  }

  // MARK: - The samples

  private static func sample(_ name: String) throws -> CatalogSection {
    let path = SamplesTests.folder.appending(path: "catalogs/\(name).yaml").path(percentEncoded: false)
    let settings = try ServiceConfiguration.loadCatalog(file: path, environment: [:])
    #expect(settings.warnings.isEmpty)
    return settings.section
  }

  @Test func `the sample of a family app has numbers, functions and experiments`() throws {
    let plans = try Self.sample("family").plans
    #expect(plans.plans.map(\.name) == ["Discovery", "Family Pro"])
    #expect(plans.terms["com.example.family.premium.annual"]?.prices["USD"]?.milliunits == 49_990)
    let limits = ["children", "favorites", "shared_users", "saved_searches"].map { name in
      ["free", "premium"].map { plans.feature(named: FeatureName(name))?.allowance(of: $0) }
    }
    #expect(limits == [[2, 99], [10, 999], [1, 99], [0, 10]].map { $0.map { Allowance.limit($0) } })
    #expect(plans.feature(named: "instant_alerts")?.allowance(of: "free") == .flag(false))
    #expect(plans.experiments.map(\.variants.count) == [3, 2, 3])
    #expect(plans.currentOffering?.packages.map(\.name) == ["$rc_monthly", "$rc_annual"])
  }

  @Test func `the sample of a cycling app has one trip in seven days`() throws {
    let plans = try Self.sample("cycling").plans
    let week = MeterRule(maximum: 1, window: .rolling(.seconds(7 * 86_400)))
    #expect(plans.feature(named: "trips")?.allowance(of: "free") == .meter([week]))
    #expect(plans.feature(named: "trips")?.allowance(of: "pro") == .meter([]))
    #expect(plans.feature(named: "bikes")?.allowance(of: "pro") == .limit(nil))
    #expect(plans.feature(named: "basic_trip_stats")?.allowance(of: "pro") == .flag(true))
  }

  @Test func `the sample of a diet app has a month, a total, days in a row, and daily limits when paid`() throws {
    let plans = try Self.sample("diet").plans
    let rules = ["oracle_questions", "recipes", "meal_days"].map { name in
      ["free", "premium"].map { (tier: Tier) -> [String] in
        guard case .meter(let rules)? = plans.feature(named: FeatureName(name))?.allowance(of: tier) else { return [] }
        return rules.map(\.text)
      }
    }
    #expect(
      rules == [[["10 per month"], ["40 per day"]], [["1 in total"], ["10 per day"]], [["3 days in a row"], []]])
    #expect(plans.currentOffering?.metadata == ["best_value": .text("$rc_annual")])
  }
}
