import Access
import CountersignServer
import Entitlements
import Ledger
import FoundationEssentials
import YAML

/// The settings that a comparison of catalog and ledger needs.
struct CatalogSettings: Sendable {
  var section: CatalogSection
  /// Percent
  var maxDowngrades: Int
  var ledger: LedgerPlace
  var warnings: [ConfigurationFinding]
}

/// `catalog`: what decides a verdict, and what stands on top of it.
struct CatalogSection {
  let catalog: Catalog
  let plans: Plans
  /// `catalog.accept_loss`
  let acceptedLoss: Set<ProductID>

  /// Reads every part before it fails, so that one run reports all problems.
  init?(_ reader: inout ConfigurationReader) {
    let tiers = Self.tiers(&reader)
    let products = Self.products(&reader, plans: tiers.plans)
    let features = Self.features(&reader, plans: tiers.plans)
    let offerings = Self.offerings(&reader, products: products.listed)
    let experiments = Self.experiments(&reader)
    let originalPurchase = Self.originalPurchase(&reader, tiers: tiers.plans.map(\.tier.rawValue))
    let entitlements = reader.read(
      "catalog.entitlements", .choice, default: Plans.EntitlementScope.cumulative,
      "The entitlements that RevenueCat's SDKs see: every tier up to the customer's, or only paid and granted tiers")
    let timeZone = reader.read(
      "catalog.time_zone", .timeZone, default: .utc,
      "The time zone of meters' days, weeks and months, unless a user has another: an IANA name such as "
        + "`Europe/Berlin`")
    acceptedLoss = Set(
      reader.list(
        "catalog.accept_loss", of: .text,
        "Products that the catalog may take away from users who have them: the service starts nevertheless, and "
          + "nobody is downgraded until the downgrade brake is released"
      ).map { ProductID($0) })
    // Every reason to refuse it was reported above, where a message can give the line.
    do throws(Catalog.Invalid) {
      catalog = try Catalog(
        tiers: tiers.plans.map(\.tier), products: products.catalogued, formerNames: tiers.formerNames,
        originalPurchase: originalPurchase)
    } catch { return nil }
    plans = Plans(
      plans: tiers.plans, terms: products.terms, features: features, offerings: offerings, experiments: experiments,
      entitlements: entitlements, timeZone: timeZone)
  }

  // MARK: - Tiers

  private static func tiers(_ reader: inout ConfigurationReader) -> (plans: [Plans.Plan], formerNames: [Tier: Tier]) {
    let items = reader.namedList(
      "catalog.tiers", atLeastOne: "tier",
      "The app's plans in ascending order; the first is for users who have bought nothing. Each is a word, or "
        + "`word: {name, description, formerly, active}`: its display name, description and former words, and `active: "
        + "false` for one that is no longer sold")
    var formerNames: [Tier: Tier] = [:]
    let plans = items.map { item in
      let what = "tier \(Quotation.of(item.name))"
      guard let node = item.members,
        let members = reader.members(
          of: node, known: ["name", "description", "formerly", "active"], what: what, origin: item.origin)
      else { return Plans.Plan(tier: Tier(item.name)) }
      for former in reader.words(members["formerly"], "\(what): formerly", origin: item.origin) {
        if items.contains(where: { $0.name == former }) {
          reader.findings.problem(
            item.origin, "\(what): formerly names \(Quotation.of(former)), which is a tier of today")
        } else if formerNames.updateValue(Tier(item.name), forKey: Tier(former)) != nil {
          reader.findings.problem(item.origin, "\(what): formerly names \(Quotation.of(former)), as another does")
        }
      }
      return Plans.Plan(
        tier: Tier(item.name),
        name: reader.text(members["name"], upTo: 200, "\(what): name", origin: item.origin),
        description: reader.text(members["description"], upTo: 2_000, "\(what): description", origin: item.origin),
        isActive: reader.boolean(members["active"], "\(what): active", origin: item.origin) ?? true)
    }
    return (plans, formerNames)
  }

  // MARK: - Products

  private struct Products {
    var catalogued: [ProductID: Catalog.Product] = [:]
    var terms: [ProductID: Plans.Terms] = [:]
    /// Also those that cannot be used for another reason.
    var listed: [String] = []
  }

  private static func products(_ reader: inout ConfigurationReader, plans: [Plans.Plan]) -> Products {
    let tiers = plans.map(\.tier.rawValue)
    let retired = Set(plans.filter { !$0.isActive }.map(\.tier))
    let key = "catalog.products"
    let rows = reader.mapping(
      key, "from product ID to {tier: …}",
      "Product ID to `{tier, name, kind, period, price, active, offers, introductory_offer}`; kind is `subscription` (default), `lifetime`, "
        + "`non_renewing`, which needs a period, or `consumable`, which has no tier; period is a subscription's (`P1M`), "
        + "price by currency (`{USD: 4.99}`); name is for people; `active: false` takes it off paywalls, and purchases count "
        + "as before; offers is from a promotional offer to who may have it (`{winter: [expired, pro]}`), and "
        + "introductory_offer who gets that one: `never` has bought nothing, `expired` has no purchase left, and a tier has "
        + "one")
    var products = Products()
    for (idNode, node) in rows {
      let origin = reader.file.origin(of: key, line: idNode.line)
      guard let id = idNode.plainKey, !id.isEmpty, id.utf8.allSatisfy({ (0x21...0x7e).contains($0) }) else {
        reader.findings.problem(origin, "a product ID must be one word")
        continue
      }
      products.listed.append(id)
      let what = "product \(Quotation.of(id))"
      guard
        let members = reader.members(
          of: node,
          known: ["tier", "name", "kind", "period", "price", "active", "offers", "introductory_offer"], what: what,
          origin: origin)
      else { continue }
      var terms = terms(members, what, origin, tiers: tiers, &reader)
      let product = product(members, what, origin, tiers: tiers, period: terms?.period, &reader)
      products.catalogued[ProductID(id)] = product
      if let product, product.kind != .subscription, terms?.hasOffers == true {
        reader.findings.problem(origin, "\(what): only a subscription has offers")
      }
      if let product, product.kind != .consumable, retired.contains(product.tier) {
        terms = (terms ?? Plans.Terms()).retired
      }
      products.terms[ProductID(id)] = terms
    }
    if rows.isEmpty {
      reader.warning(key, "no product is catalogued: no purchase grants more than the lowest tier")
    }
    return products
  }

  private static func product(
    _ members: [String: Node], _ what: String, _ origin: String, tiers: [String], period: BillingPeriod?,
    _ reader: inout ConfigurationReader
  ) -> Catalog.Product? {
    let given: ProductKind? = reader.value(members["kind"], .choice, "\(what): kind", origin: origin)
    guard let kind = members["kind"] == nil ? ProductKind.subscription : given else { return nil }
    switch kind {
    case .subscription: break
    case .nonRenewing:
      if members["period"] == nil {
        reader.findings.problem(
          origin, "\(what) lacks period: the App Store names no end of a non-renewing subscription")
      }
      if period == nil { return nil }
    case .lifetime, .consumable:
      if members["period"] != nil {
        reader.findings.problem(origin, "\(what): only a subscription has a period")
      }
    }
    if kind == .consumable {
      guard members["tier"] == nil else {
        reader.findings.problem(origin, "\(what): a consumable gives no tier")
        return nil
      }
      return tiers.first.map { Catalog.Product(tier: Tier($0), kind: kind) }
    }
    guard members["tier"] != nil else {
      reader.findings.problem(origin, "\(what) lacks tier")
      return nil
    }
    guard let tier = reader.single(members["tier"], "\(what): tier", origin: origin) else { return nil }
    guard tiers.contains(tier) else {
      reader.reportUnlisted(tier: tier, among: tiers, what, origin: origin)
      return nil
    }
    if tier == tiers.first {
      reader.findings.warning(
        origin, "\(what): tier is the lowest one, which everybody has; are the tiers in ascending order?")
    }
    return Catalog.Product(tier: Tier(tier), kind: kind, period: period)
  }

  private static func terms(
    _ members: [String: Node], _ what: String, _ origin: String, tiers: [String], _ reader: inout ConfigurationReader
  ) -> Plans.Terms? {
    var period: BillingPeriod?
    if let text = reader.single(members["period"], "\(what): period", origin: origin) {
      period = BillingPeriod(text)
      if period == nil {
        reader.findings.problem(
          origin, "\(what): period must be such as P1W, P1M, P6M or P1Y, not \(Quotation.of(text))")
      }
    }
    var prices: [String: Price] = [:]
    if let node = members["price"] {
      guard let mapping = node.mapping, !mapping.isEmpty else {
        reader.findings.problem(origin, "\(what): price must be a mapping from currency to amount, such as {USD: 4.99}")
        return nil
      }
      for (currencyNode, amount) in mapping {
        let currency = currencyNode.plainKey ?? ""
        guard currency.utf8.count == 3, currency.utf8.allSatisfy({ (0x41...0x5a).contains($0) }) else {
          reader.findings.problem(
            origin, "\(what): price: a currency must be three capitals such as USD, not \(Quotation.of(currency))")
          continue
        }
        guard let text = reader.single(amount, "\(what): price in \(currency)", origin: origin) else { continue }
        prices[currency] = Price(text)
        if prices[currency] == nil {
          reader.findings.problem(
            origin, "\(what): price in \(currency) must be an amount such as 4.99, not \(Quotation.of(text))")
        }
      }
    }
    let terms = Plans.Terms(
      name: reader.text(members["name"], upTo: 200, "\(what): name", origin: origin),
      isActive: reader.boolean(members["active"], "\(what): active", origin: origin) ?? true, period: period,
      prices: prices, offers: offers(members["offers"], what, origin, tiers: tiers, &reader),
      introductoryOffer: members["introductory_offer"].flatMap {
        audiences($0, "\(what): introductory_offer", origin, tiers: tiers, &reader)
      })
    return terms == Plans.Terms() ? nil : terms
  }
}

// MARK: - Parts of a catalog

extension ConfigurationReader {
  /// The name in a key; a key that cannot stand in a URL is reported.
  mutating func name(_ node: Node, _ what: String, origin: String) -> String? {
    guard let name = node.plainKey, name.wholeMatch(of: /[A-Za-z0-9_$][A-Za-z0-9_.$-]{0,63}/) != nil else {
      findings.problem(origin, "\(what) must be 1 to 64 letters, digits or _ - . $, and not begin with - or .")
      return nil
    }
    return name
  }

  mutating func reportUnlisted(tier: String, among tiers: [String], _ what: String, origin: String) {
    // Without tiers that is what is wrong.
    guard !tiers.isEmpty else { return }
    findings.problem(
      origin,
      "\(what): catalog.tiers does not list the tier \(Quotation.of(tier))"
        + Suggestion.clause(for: tier, among: tiers))
  }

  /// A single value; `nil` if it is absent, and if it is not one, which is reported.
  mutating func single(_ node: Node?, _ what: String, origin: String) -> String? {
    guard let node else { return nil }
    if let text = node.scalar?.string { return text }
    findings.problem(origin, "\(what) must be a single value")
    return nil
  }

  /// The same, read in a form.
  mutating func value<Value>(_ node: Node?, _ form: ValueForm<Value>, _ what: String, origin: String) -> Value? {
    guard let text = single(node, what, origin: origin) else { return nil }
    return field(text, form, what, origin: origin)
  }

  /// A text for people.
  mutating func text(_ node: Node?, upTo length: Int, _ what: String, origin: String) -> String? {
    guard let text = single(node, what, origin: origin) else { return nil }
    let isPlain = text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    guard isPlain, (1...length).contains(text.count) else {
      findings.problem(origin, "\(what) must be 1 to \(length) characters on one line")
      return nil
    }
    return text
  }

  /// One word, or a list of words.
  mutating func words(_ node: Node?, _ what: String, origin: String) -> [String] {
    guard let node else { return [] }
    let words = node.sequence?.map { $0.scalar?.string } ?? [node.scalar?.string]
    guard !words.contains(where: { $0?.isEmpty ?? true }) else {
      findings.problem(origin, "\(what) must be a word or a list of words")
      return []
    }
    return words.compactMap(\.self)
  }

  /// `true` or `false`.
  mutating func boolean(_ node: Node?, _ what: String, origin: String) -> Bool? {
    guard let text = single(node, what, origin: origin) else { return nil }
    switch text {
    case "true": return true
    case "false": return false
    default:
      findings.problem(origin, "\(what) must be true or false, not \(Quotation.of(text))")
      return nil
    }
  }
}
