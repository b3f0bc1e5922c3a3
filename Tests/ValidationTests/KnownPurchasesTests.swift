import Entitlements
import Foundation
import Testing

@testable import Validation

@Suite struct KnownPurchasesTests {
  private static func date(_ day: Int) -> Date { Date(timeIntervalSince1970: Double(day) * 86_400) }

  private static func purchase(_ id: TransactionID, of original: OriginalTransactionID, until day: Int?) -> Purchase {
    Purchase(
      productID: "p", transactionID: id, originalTransactionID: original, expiresDate: day.map { date($0) })
  }

  private static func evidence(
    _ original: OriginalTransactionID, in environment: StoreEnvironment = .production, _ purchases: [Purchase]
  ) -> SubscriptionEvidence {
    SubscriptionEvidence(
      key: SubscriptionKey(environment: environment, originalTransactionID: original), source: .verifyReceipt,
      evidenceTime: date(0), evaluatedAt: date(0), purchases: purchases)
  }

  @Test func `a transaction is known, and so is a period that ends no later; anything else is news`() {
    let known = KnownPurchases([Self.evidence("1", [Self.purchase("12", of: "1", until: 30)])])
    #expect(known.contains(Self.purchase("12", of: "1", until: 30)))
    #expect(known.contains(Self.purchase("11", of: "1", until: 29)))
    #expect(known.contains(Self.purchase("11", of: "1", until: 30)))
    #expect(!known.contains(Self.purchase("13", of: "1", until: 31)), "bought again")
    #expect(!known.contains(Self.purchase("21", of: "2", until: 1)), "another subscription")
    #expect(!known.contains(Self.purchase("14", of: "1", until: nil)), "without an end, only its ID can be known")
    #expect(!KnownPurchases([]).contains(Self.purchase("12", of: "1", until: 30)))
  }

  @Test func `a purchase whose ID both stores know has to be known to both`() {
    let known = KnownPurchases([
      Self.evidence("1", [Self.purchase("12", of: "1", until: 30)]),
      Self.evidence("1", in: .sandbox, [Self.purchase("91", of: "1", until: 10)]),
    ])
    #expect(known.contains(Self.purchase("11", of: "1", until: 10)))
    #expect(!known.contains(Self.purchase("12", of: "1", until: 30)))
  }
}
