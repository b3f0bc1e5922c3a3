import CountersignAPI
import Entitlements

import struct FoundationEssentials.Date

extension PurchasePeriod {
  /// A customer who buys weekly for four years has no more; Apple reports the newest of each subscription only.
  static let limit = 200

  /// All periods, the latest end first. The app itself, which every customer has, is among them where it gives a tier.
  static func all(of evidence: [SubscriptionEvidence], rules: EntitlementRules) -> [PurchasePeriod] {
    let catalog = rules.catalog
    let nonRenewing = NonRenewingPeriods(of: evidence, catalog: catalog)
    let shown = evidence.filter { !$0.key.isOfApp || rules.isCatalogued($0) }
    let periods = shown.flatMap { item in
      let upgraded = item.upgradedTransactions
      let last = item.purchases.filter { $0.cancellationDate == nil && !upgraded.contains($0.transactionID) }
        .compactMap(\.expiresDate).max()
      return item.purchases.map { purchase in
        var period = PurchasePeriod(purchase, of: item, catalog: catalog)
        period.isUpgraded = upgraded.contains(purchase.transactionID)
        period.endsAt = period.endsAt ?? nonRenewing.end(of: purchase, in: item.key.environment)
        guard let end = purchase.expiresDate, end == last else { return period }
        period.renewal = item.terms.map(CountersignAPI.RenewalTerms.init)
        guard let renewal = item.renewal(of: purchase) else { return period }
        period.graceUntil = renewal.gracePeriodExpiresDate
        if period.graceUntil == nil, renewal.isInBillingRetry == true, rules.policy.billingRetryAccess > .zero {
          period.retryUntil = end.advanced(by: rules.policy.billingRetryAccess)
        }
        return period
      }
    }
    return Array(
      periods.sorted { one, other in
        let ends = (one.endsAt ?? .distantFuture, other.endsAt ?? .distantFuture)
        return ends.0 == ends.1 ? one.transactionID > other.transactionID : ends.0 > ends.1
      }.prefix(limit))
  }

  private init(_ purchase: Purchase, of evidence: SubscriptionEvidence, catalog: Catalog) {
    let product = catalog.product(of: purchase, in: evidence)
    self.init(
      originalTransactionID: evidence.key.originalTransactionID.rawValue,
      transactionID: purchase.transactionID.rawValue,
      environment: EntitlementState.Environment(evidence.key.environment), productID: purchase.productID.rawValue,
      tier: product?.tier.rawValue, startsAt: purchase.purchaseDate,
      endsAt: product?.kind == .lifetime ? nil : purchase.expiresDate, takenBackAt: purchase.cancellationDate,
      isUpgraded: purchase.isUpgraded, isTrial: purchase.isTrial,
      ownership: EntitlementState.Ownership(purchase.ownership), provisionalUntil: evidence.provisionalUntil,
      terms: PurchaseTerms(purchase))
  }
}
