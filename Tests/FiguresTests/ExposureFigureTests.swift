import Access
import Entitlements
import Figures
import Foundation
import LedgerFixtures
import Testing

/// The contribution of one user who saw a variant to its figures.
@Suite struct ExposureFigureTests {
  /// 2026-01-01, and the exposure at noon of the eleventh day.
  private static let first = 20_454
  private static let exposure = Exposure(experiment: "paywall", variant: "family", at: date(10.5))

  private static func date(_ day: Double) -> Date { Date(timeIntervalSince1970: (Double(first) + day) * 86_400) }

  private static func purchase(
    _ from: Double, price: Int64 = 9_990, isTrial: Bool = false, refundedOn refund: Double? = nil,
    isUpgraded: Bool = false, currency: String = "USD"
  ) -> Purchase {
    Purchase(
      productID: "pro", transactionID: TransactionID("\(from)"), originalTransactionID: "1", purchaseDate: date(from),
      expiresDate: date(from + 30), cancellationDate: refund.map(date), isUpgraded: isUpgraded, isTrial: isTrial,
      sale: .init(price: price, currency: currency))
  }

  private static func counts(
    _ purchases: [Purchase], trials: [Double] = [], _ environment: StoreEnvironment = .production,
    isFromStart: Bool = true
  ) -> [String: VariantCounts] {
    var purchases = purchases
    if isFromStart, !purchases.isEmpty { purchases[0].isFirst = true }
    let evidence = SubscriptionEvidence(
      key: SubscriptionKey(environment: environment, originalTransactionID: "1"), source: .verifyReceipt,
      evidenceTime: date(0), evaluatedAt: date(0), purchases: purchases, renewals: [])
    let counts = exposure.counts([evidence], trials: trials.map(date), [:])
    #expect(counts.keys.allSatisfy { $0.experiment == "paywall" && $0.variant == "family" && $0.day == first + 10 })
    return Dictionary(uniqueKeysWithValues: counts.map { ($0.key.currency, $0.value) })
  }

  /// exposed, paid before, trials, paid.
  private static func users(_ counts: [String: VariantCounts]) -> [Int64] {
    let users = counts[""] ?? VariantCounts()
    return [users.exposed, users.paidBefore, users.trials, users.paid]
  }

  private static func money(_ counts: [String: VariantCounts]) -> [String: [Int64]] {
    counts.filter { !$0.key.isEmpty }.mapValues { [$0.revenue, $0.refunds] }
  }

  @Test func `a user without a purchase counts as exposed only`() {
    #expect(Self.users(Self.counts([])) == [1, 0, 0, 0])
    #expect(Self.money(Self.counts([])) == [:])
  }

  @Test func `the first payment counts, and what follows is revenue`() {
    let counts = Self.counts([Self.purchase(10.5), Self.purchase(40.5), Self.purchase(70, currency: "EUR")])
    #expect(Self.users(counts) == [1, 0, 0, 1])
    #expect(Self.money(counts) == ["USD": [19_980, 0], "EUR": [9_990, 0]])
  }

  @Test func `a user who had paid before is in no other number`() {
    let counts = Self.counts([Self.purchase(10.4), Self.purchase(40, price: 4_990)], trials: [11])
    #expect(Self.users(counts) == [1, 1, 0, 0])
    #expect(Self.money(counts) == [:])
    // Also who got the money back.
    #expect(Self.users(Self.counts([Self.purchase(3, refundedOn: 4), Self.purchase(40)])) == [1, 1, 0, 0])
  }

  @Test func `a user whose purchase is first seen at a renewal had paid before`() {
    var first = Self.purchase(11)
    #expect(Self.users(Self.counts([first], isFromStart: false)) == [1, 1, 0, 0])
    first.transactionID = "1"
    #expect(Self.users(Self.counts([first, Self.purchase(41)], isFromStart: false)) == [1, 0, 0, 1])
    #expect(Self.users(Self.counts([Self.purchase(11, isTrial: true)], isFromStart: false)) == [1, 0, 1, 0])
  }

  @Test func `a payment that was refunded is none, but where another stays`() {
    let refunded = Self.counts([Self.purchase(11, refundedOn: 12)])
    #expect(Self.users(refunded) == [1, 0, 0, 0])
    #expect(Self.money(refunded) == ["USD": [9_990, 9_990]])
    let twice = Self.counts([Self.purchase(11, refundedOn: 12), Self.purchase(20)])
    #expect(Self.users(twice) == [1, 0, 0, 1])
    #expect(Self.money(twice) == ["USD": [19_980, 9_990]])
    // An upgrade is no refund.
    let upgraded = Self.counts([Self.purchase(11, refundedOn: 12, isUpgraded: true)])
    #expect(Self.users(upgraded) == [1, 0, 0, 1])
    #expect(Self.money(upgraded) == ["USD": [9_990, 0]])
  }

  @Test func `a trial counts that began since: the store's, or the app's own`() {
    #expect(Self.users(Self.counts([Self.purchase(10.5, price: 0, isTrial: true)])) == [1, 0, 1, 0])
    #expect(Self.users(Self.counts([], trials: [10.5])) == [1, 0, 1, 0])
    #expect(
      Self.users(Self.counts([Self.purchase(11, isTrial: true), Self.purchase(18)], trials: [12])) == [1, 0, 1, 1])
    // It began before, and was paid for since.
    #expect(Self.users(Self.counts([Self.purchase(10.4, isTrial: true), Self.purchase(18)])) == [1, 0, 0, 1])
    #expect(Self.users(Self.counts([], trials: [10.4])) == [1, 0, 0, 0])
  }

  @Test func `the sandbox, family sharing and what is not confirmed count for nothing`() {
    #expect(Self.users(Self.counts([Self.purchase(11)], .sandbox)) == [1, 0, 0, 0])
    var shared = Self.purchase(11)
    shared.ownership = .familyShared
    #expect(Self.users(Self.counts([shared])) == [1, 0, 0, 0])
  }

  @Test func `conversion is a part of those who had not paid before`() throws {
    var counts = VariantCounts()
    (counts.exposed, counts.paidBefore, counts.paid) = (1_010, 10, 50)
    #expect(try #require(counts.conversion).rate == 0.05)
    counts.exposed = 10
    counts.paid = 0
    #expect(counts.conversion == nil)
  }
}
