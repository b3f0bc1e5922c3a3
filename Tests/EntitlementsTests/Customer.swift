import Entitlements

import struct FoundationEssentials.Date

/// Noon of 15 June 2024, UTC: the moment that most cases are judged at.
let noon = Date(millisecondsSince1970: 1_718_452_800_000)

/// A number of days from `noon`, plus some milliseconds.
func day(_ days: Double, ms: Int64 = 0) -> Date {
  Date(millisecondsSince1970: noon.millisecondsSince1970 + Int64(days * 86_400_000) + ms)
}

/// A number of minutes from `noon`, plus some milliseconds.
func minute(_ minutes: Double, ms: Int64 = 0) -> Date { day(0, ms: Int64((minutes * 60_000).rounded()) + ms) }

let pro: ProductID = "app.pro.monthly"
let proYearly: ProductID = "app.pro.yearly"
let premium: ProductID = "app.premium.monthly"
let forever: ProductID = "app.forever"
let season: ProductID = "app.season"
let unheardOf: ProductID = "app.unheard.of"

/// The catalog of all cases: free < pro < premium, one lifetime product of premium, a month of pro that does not renew.
func makeCatalog() throws -> Catalog {
  try Catalog(
    tiers: ["free", "pro", "premium"],
    products: [
      pro: .init(tier: "pro"),
      proYearly: .init(tier: "pro"),
      premium: .init(tier: "premium"),
      forever: .init(tier: "premium", kind: .lifetime),
      season: .init(tier: "pro", kind: .nonRenewing, period: BillingPeriod(count: 1, unit: .month)),
    ])
}

/// One row, by default a month of pro that ran out five days ago.
func row(
  _ transactionID: TransactionID, _ product: ProductID = pro, of original: OriginalTransactionID = "100",
  group: SubscriptionGroupID? = nil, from begin: Date? = day(-35), until end: Date? = day(-5),
  cancelled: Date? = nil, upgraded: Bool = false, ownership: Purchase.Ownership = .purchased,
  trial: Bool = false, intro: Bool = false, period: String? = nil
) -> Purchase {
  Purchase(
    productID: product, transactionID: transactionID, originalTransactionID: original, webOrderLineItemID: period,
    subscriptionGroupID: group, purchaseDate: begin, expiresDate: end, cancellationDate: cancelled,
    isUpgraded: upgraded, ownership: ownership, isTrial: trial, isIntroductoryOffer: intro)
}

func renewal(
  _ product: ProductID? = pro, of original: OriginalTransactionID? = "100", next: ProductID? = nil,
  renews: Bool? = nil, intent: Int? = nil, retry: Bool? = nil, grace: Date? = nil, status: RenewalInfo.Status? = nil,
  graceOver: Bool? = nil
) -> RenewalInfo {
  RenewalInfo(
    originalTransactionID: original, productID: product, autoRenewProductID: next, autoRenews: renews,
    expirationIntent: intent, isInBillingRetry: retry, gracePeriodExpiresDate: grace, status: status,
    isGraceOver: graceOver)
}

/// One answer of Apple's, or a part of what Apple knows, taken apart by subscription.
func answer(
  at moment: Date = noon, _ rows: [Purchase], _ renewals: [RenewalInfo] = [], gone: Bool = false,
  in environment: StoreEnvironment = .production, source: EvidenceSource = .verifyReceipt, isPart: Bool = false
) -> [SubscriptionEvidence] {
  PurchaseHistory(
    environment: environment, source: source, evidenceTime: moment, evaluatedAt: moment, purchases: rows,
    renewals: renewals, isAccountGone: gone, coverage: isPart ? .partial(since: nil) : .snapshot
  ).evidence()
}

func evaluate(
  _ evidence: [SubscriptionEvidence], at now: Date = noon, retryAccess: Duration = .seconds(60 * 86_400),
  hold: Duration = .seconds(7 * 86_400), late: Duration = .seconds(86_400)
) throws -> Entitlement {
  Entitlement.evaluate(
    evidence, at: now, catalog: try makeCatalog(),
    policy: EntitlementPolicy(billingRetryAccess: retryAccess, outageHold: hold, lateRenewal: late))
}

extension Entitlement {
  /// The verdict in one line, which most cases compare.
  var line: String {
    "\(status.rawValue) \(tier) \(reason.rawValue)\(isStale ? " stale" : "")"
  }
}
