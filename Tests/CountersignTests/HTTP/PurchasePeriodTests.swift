import CountersignAPI
import Entitlements
import Foundation
import Testing

@testable import Countersign
@testable import CountersignServer

@Suite struct PurchasePeriodTests {
  /// After a change of product Apple may send an element for each of the two, under one original transaction ID.
  @Test func `a period's grace is that of the renewal info that the rules go by, in whatever order they come`() throws {
    let product: ProductID = "pro"
    let grace = noon.addingTimeInterval(5 * 86_400)
    let purchase = Purchase(
      productID: product, transactionID: "2", originalTransactionID: "1",
      purchaseDate: noon.addingTimeInterval(-31 * 86_400), expiresDate: noon.addingTimeInterval(-86_400))
    let renewals = [
      RenewalInfo(originalTransactionID: "1", productID: "other", autoRenews: false, expirationIntent: 1),
      RenewalInfo(
        originalTransactionID: "1", productID: product, autoRenews: true, isInBillingRetry: true,
        gracePeriodExpiresDate: grace),
    ]
    let catalog = try Catalog(tiers: ["free", "pro"], products: [product: .init(tier: "pro")])
    let rules = EntitlementRules(catalog: catalog, policy: EntitlementPolicy(), sandbox: .accept)
    for renewals in [renewals, renewals.reversed()] {
      let evidence = SubscriptionEvidence(
        key: SubscriptionKey(environment: .production, originalTransactionID: "1"), source: .verifyReceipt,
        evidenceTime: noon, evaluatedAt: noon, purchases: [purchase], renewals: renewals)
      let verdict = rules.evaluate("anna", [evidence], at: noon)
      #expect(verdict.status == .gracePeriod)
      let period = try #require(PurchasePeriod.all(of: [evidence], rules: rules).first)
      #expect(period.graceUntil == verdict.accessUntil)
      #expect(period.retryUntil == nil)
    }
  }
}
