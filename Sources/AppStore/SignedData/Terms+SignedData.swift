import Entitlements
import JSON

import struct FoundationEssentials.Date

// A member that cannot be read is left out: no purchase is refused for its terms.

extension JSONValue {
  fileprivate func textIfReadable(_ key: String) -> String? { (try? text(key)) ?? nil }
  fileprivate func numberIfReadable(_ key: String) -> Int64? { (try? number(key)) ?? nil }
  fileprivate func codeIfReadable(_ key: String) -> Int? { (try? code(key)) ?? nil }
  fileprivate func momentIfReadable(_ key: String) -> Date? { (try? moment(key)) ?? nil }
  fileprivate func objectIfReadable(_ key: String) -> JSONValue? { (try? object(key)) ?? nil }
}

extension Purchase.Ownership {
  /// - Parameter word: Apple's; one that is missing means that the customer bought it.
  init(ofApples word: String?) {
    self =
      switch word?.uppercased() {
      case nil, "PURCHASED": .purchased
      case "FAMILY_SHARED": .familyShared
      default: .unknown
      }
  }
}

extension Purchase.Terms {
  init(_ payload: JSONValue) {
    self.init()
    reason = payload.textIfReadable("transactionReason")
    appTransactionID = payload.textIfReadable("appTransactionId")
    billingPlan = payload.textIfReadable("billingPlanType")
    previousOriginalTransactionID = payload.textIfReadable("previousOriginalTransactionId").map {
      OriginalTransactionID($0)
    }
    items = AdvancedCommerceItem.all(payload)
    // https://developer.apple.com/documentation/appstoreserverapi/transactioncommitmentinfo
    guard let commitment = payload.objectIfReadable("commitmentInfo") else { return }
    billingPeriod = commitment.numberIfReadable("billingPeriodNumber")
    billingPeriods = commitment.numberIfReadable("totalBillingPeriods")
    commitmentEndsAt = commitment.momentIfReadable("commitmentExpiresDate")
    commitmentPrice = commitment.numberIfReadable("commitmentPrice")
  }
}

extension RenewalTerms {
  /// - Returns: `nil` without any.
  init?(_ payload: JSONValue, signedAt: Date) {
    var terms = RenewalTerms(signedAt: signedAt)
    terms.priceIncreaseStatus = payload.codeIfReadable("priceIncreaseStatus")
    terms.price = payload.numberIfReadable("renewalPrice")
    terms.currency = payload.textIfReadable("currency")
    terms.offerType = payload.codeIfReadable("offerType")
    terms.offerID = payload.textIfReadable("offerIdentifier")
    terms.discountType = payload.textIfReadable("offerDiscountType")
    terms.billingPlan = payload.textIfReadable("renewalBillingPlanType")
    terms.winBackOfferIDs = Self.winBackOfferIDs(payload)
    terms.items = AdvancedCommerceItem.all(payload)
    // https://developer.apple.com/documentation/appstoreserverapi/renewalcommitmentinfo
    if let commitment = payload.objectIfReadable("commitmentInfo") {
      terms.commitmentRenews = Bool(state: commitment.codeIfReadable("commitmentAutoRenewStatus"))
      terms.commitmentEndsAt = commitment.momentIfReadable("commitmentRenewalDate")
      terms.commitmentProductID = commitment.textIfReadable("commitmentAutoRenewProductId").map { ProductID($0) }
      terms.commitmentBillingPlan = commitment.textIfReadable("commitmentRenewalBillingPlanType")
      terms.commitmentPrice = commitment.numberIfReadable("commitmentRenewalPrice")
    }
    guard let checked = terms.checked else { return nil }
    self = checked
  }

  /// The most offers that are kept, and the bytes of the longest ID.
  private static let (mostOffers, longestOffer) = (20, 64)

  /// Unreadable and too long IDs are left out.
  private static func winBackOfferIDs(_ payload: JSONValue) -> [String]? {
    let ids = payload["eligibleWinBackOfferIds"]?.elements.compactMap { element -> String? in
      guard case .string(let id) = element.kind, (1...longestOffer).contains(id.utf8.count) else { return nil }
      return id
    }
    return ids.flatMap { $0.isEmpty ? nil : Array($0.prefix(mostOffers)) }
  }
}

extension AdvancedCommerceItem {
  /// The items of a transaction's or a renewal's `advancedCommerceInfo`.
  fileprivate static func all(_ payload: JSONValue) -> [AdvancedCommerceItem] {
    let info = payload.objectIfReadable("advancedCommerceInfo")
    return (info?["items"]?.elements ?? []).compactMap { item in
      guard item.isObject, let sku = item.textIfReadable("SKU") else { return nil }
      return AdvancedCommerceItem(
        sku: sku, name: item.textIfReadable("displayName"), price: item.numberIfReadable("price"),
        revokedAt: item.momentIfReadable("revocationDate"))
    }
  }
}
