import Foundation
import Testing

@testable import Entitlements

/// The rules for customers who had the app before it sold subscriptions.
@Suite struct OriginalPurchaseTests {
  private static let now = Date(timeIntervalSince1970: 1_768_478_400.123456789)
  private static let bought = Date(timeIntervalSince1970: 1_600_000_000.123456789)

  @Test(arguments: [
    ("2.9", "3.0", true), ("3.0", "3.0", false), ("3", "3.0", false), ("3.0.0", "3", false), ("3.0.1", "3", false),
    ("9.9", "10", true), ("10", "9.9", false), ("1.10", "1.9", false), ("1.09", "1.10", true), ("0", "0.1", true),
    ("2.9.9.9", "3", true), ("7", "8", true), ("202401151230", "202402", false),
    ("99999999999999999999", "100000000000000000000", true),
  ])
  func `versions are compared number by number`(version: String, bound: String, isBefore: Bool) throws {
    let (one, other) = (try #require(AppVersion(version)), try #require(AppVersion(bound)))
    #expect((one < other) == isBefore)
  }

  @Test(arguments: ["", ".", "1.", ".1", "1..2", "1.0b2", "v1", "-1", "1 ", "١", String(repeating: "1", count: 65)])
  func `a text that is no version is before none`(text: String) throws {
    #expect(AppVersion(text) == nil)
    #expect(try Self.verdict(version: text, Self.early) == "free active no_purchases")
  }

  @Test(arguments: [("3.0", "3"), ("0003.10", "3.10"), ("0.0", "0"), ("1.0.2", "1.0.2")])
  func `a version has one spelling`(text: String, spelling: String) {
    #expect(AppVersion(text)?.text == spelling)
  }

  private static func evidence(
    _ version: String?, _ date: Date? = bought, in environment: StoreEnvironment = .production
  ) -> SubscriptionEvidence {
    let key = SubscriptionKey(environment: environment, originalTransactionID: .init(ofApp: "704000000000000001"))
    return OriginalPurchase(version: version, date: date, signedAt: bought + 10).evidence(
      key, of: "com.example.app", source: .signature)
  }

  private static func rules(_ original: [OriginalPurchaseRule]) throws -> EntitlementRules {
    EntitlementRules(
      catalog: try Catalog(
        tiers: ["free", "pro", "premium"],
        products: ["pro.monthly": .init(tier: "pro"), "premium.monthly": .init(tier: "premium")],
        originalPurchase: original), policy: EntitlementPolicy(), sandbox: .accept)
  }

  private static func verdict(
    version: String?, date: Date? = bought, in environment: StoreEnvironment = .production,
    _ original: OriginalPurchaseRule...
  ) throws -> String {
    let verdict = try rules(original).evaluate("anna", [evidence(version, date, in: environment)], at: now)
    return "\(verdict.tier) \(verdict.status.rawValue) \(verdict.reason.rawValue)"
  }

  private static let early = OriginalPurchaseRule(
    before: AppVersion("3.0").map { .version($0) } ?? .date(.distantPast), tier: "pro")

  @Test func `a customer who had the app early enough has the tier for life`() throws {
    #expect(try Self.verdict(version: "2.1", Self.early) == "pro active original_purchase")
    #expect(try Self.verdict(version: "3.0", Self.early) == "free active no_purchases")
    #expect(try Self.verdict(version: nil, Self.early) == "free active no_purchases")
    #expect(try Self.verdict(version: "2.1") == "free active no_purchases")
    let verdict = try Self.rules([Self.early]).evaluate("anna", [Self.evidence("2.1")], at: Self.now)
    #expect(verdict.productID == "com.example.app" && verdict.accessUntil == nil && verdict.willRenew == nil)
    #expect(
      verdict.words().first == "The customer had the app itself early enough to have pro for life; it does not expire.")
    let (rules, evidence) = (try Self.rules([Self.early]), Self.evidence("2.1"))
    let alone = rules.surroundings(of: [evidence])
    #expect(rules.nextCheck(of: evidence, among: alone, at: Self.now) == nil)
  }

  @Test func `a date counts as well, and the highest tier`() throws {
    let premium = OriginalPurchaseRule(before: .date(Self.bought + 1), tier: "premium")
    #expect(try Self.verdict(version: "2.1", premium, Self.early) == "premium active original_purchase")
    #expect(
      try Self.verdict(version: "2.1", date: Self.bought + 1, Self.early, premium) == "pro active original_purchase")
    #expect(try Self.verdict(version: nil, date: nil, premium) == "free active no_purchases")
  }

  @Test func `the sandbox, where everybody had version 1_0, proves nothing`() throws {
    #expect(try Self.verdict(version: "1.0", in: .sandbox, Self.early) == "free active no_purchases")
  }

  @Test func `a subscription of a higher tier decides while it runs`() throws {
    let key = SubscriptionKey(environment: .production, originalTransactionID: "1")
    let monthly = SubscriptionEvidence(
      key: key, source: .serverAPI, evidenceTime: Self.now - 60, evaluatedAt: Self.now - 60,
      purchases: [
        Purchase(
          productID: "premium.monthly", transactionID: "1", originalTransactionID: "1", purchaseDate: Self.now - 600,
          expiresDate: Self.now + 600)
      ])
    let rules = try Self.rules([Self.early])
    let both = [monthly, Self.evidence("2.1")]
    #expect(rules.evaluate("anna", both, at: Self.now).tier == "premium")
    let after = rules.evaluate("anna", both, at: Self.now + 90 * 86_400)
    #expect(after.tier == "pro" && after.reason == .originalPurchase && !after.isStale)
  }

  @Test func `a tier that is not listed is refused`() {
    #expect(throws: Catalog.Invalid.unknownOriginalTier("gold")) {
      try Catalog(tiers: ["free"], products: [:], originalPurchase: [.init(before: .date(Self.now), tier: "gold")])
    }
  }
}
