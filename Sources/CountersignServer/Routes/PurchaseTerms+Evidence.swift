import Access
import CountersignAPI
import Entitlements

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
