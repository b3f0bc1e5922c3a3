import Access
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
      let last = item.purchases.filter {
        $0.cancellationDate == nil && !$0.isUpgraded && !upgraded.contains($0.transactionID)
      }
      .compactMap(\.expiresDate).max()
      return item.purchases.map { purchase in
        var period = PurchasePeriod(purchase, of: item, catalog: catalog)
        period.isUpgraded = purchase.isUpgraded || upgraded.contains(purchase.transactionID)
        period.endsAt = period.endsAt ?? nonRenewing.end(of: purchase, in: item.key.environment)
        guard let end = purchase.expiresDate, end == last else { return period }
        period.renewal = item.terms(of: purchase).map(CountersignAPI.RenewalTerms.init)
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

extension PurchaseTerms {
  /// - Returns: `nil` where the store says nothing.
  init?(_ purchase: Purchase) {
    guard let sale = purchase.sale else { return nil }
    let terms = sale.terms
    self.init()
    transactionReason = terms?.reason
    price = sale.price.map(Price.text)
    currency = sale.currency
    storefront = sale.storefront
    offerType = sale.offerName
    offerID = sale.offerID
    offerDiscountType = terms?.discountType
    offerPeriod = sale.offerPeriod
    appTransactionID = terms?.appTransactionID
    if purchase.cancellationDate != nil {
      revocationType = terms?.revocationType
      revocationPercentage = sale.revocationPercentage
    }
    billingPlan = terms?.billingPlan
    billingPeriod = terms?.billingPeriod
    billingPeriods = terms?.billingPeriods
    commitmentExpiresAt = terms?.commitmentEndsAt
    commitmentPrice = terms?.commitmentPrice.map(Price.text)
    previousOriginalTransactionID = terms?.previousOriginalTransactionID?.rawValue
    items = [CountersignAPI.AdvancedCommerceItem](terms?.items)
  }
}

extension CountersignAPI.RenewalTerms {
  init(_ terms: Entitlements.RenewalTerms) {
    self.init()
    price = terms.price.map(Price.text)
    currency = terms.currency
    priceIncreaseStatus = terms.priceIncreaseStatus.map(Int64.init)
    offerType = Purchase.Sale.name(ofOffer: terms.offerType)
    offerID = terms.offerID
    offerDiscountType = terms.discountType
    billingPlan = terms.billingPlan
    commitmentRenews = terms.commitmentRenews
    commitmentExpiresAt = terms.commitmentEndsAt
    commitmentProductID = terms.commitmentProductID?.rawValue
    commitmentBillingPlan = terms.commitmentBillingPlan
    commitmentPrice = terms.commitmentPrice.map(Price.text)
    winBackOfferIDs = terms.winBackOfferIDs
    items = [CountersignAPI.AdvancedCommerceItem](terms.items)
  }
}

extension [CountersignAPI.AdvancedCommerceItem] {
  /// - Returns: `nil` for no items.
  fileprivate init?(_ items: [Entitlements.AdvancedCommerceItem]?) {
    guard let items, !items.isEmpty else { return nil }
    self = items.map {
      CountersignAPI.AdvancedCommerceItem(
        sku: $0.sku, name: $0.name, price: $0.price.map(Price.text), revokedAt: $0.revokedAt)
    }
  }
}

extension Price {
  fileprivate static func text(_ milliunits: Int64) -> String { Price(milliunits: milliunits).text }
}
