import Entitlements
import JSON

import struct FoundationEssentials.Date

// A member that cannot be read is left out: no purchase is refused for its terms.

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
    reason = try? payload.text("transactionReason")
    appTransactionID = try? payload.text("appTransactionId")
    billingPlan = try? payload.text("billingPlanType")
    previousOriginalTransactionID = (try? payload.text("previousOriginalTransactionId")).map {
      OriginalTransactionID($0)
    }
    items = AdvancedCommerceItem.all(payload)
    // https://developer.apple.com/documentation/appstoreserverapi/transactioncommitmentinfo
    guard let commitment = try? payload.object("commitmentInfo") else { return }
    billingPeriod = try? commitment.number("billingPeriodNumber")
    billingPeriods = try? commitment.number("totalBillingPeriods")
    commitmentEndsAt = try? commitment.moment("commitmentExpiresDate")
    commitmentPrice = try? commitment.number("commitmentPrice")
  }
}

extension RenewalTerms {
  /// - Returns: `nil` without any.
  init?(_ payload: JSONValue, signedAt: Date) {
    var terms = RenewalTerms(signedAt: signedAt)
    terms.priceIncreaseStatus = try? payload.code("priceIncreaseStatus")
    terms.price = try? payload.number("renewalPrice")
    terms.currency = try? payload.text("currency")
    terms.offerType = try? payload.code("offerType")
    terms.offerID = try? payload.text("offerIdentifier")
    terms.discountType = try? payload.text("offerDiscountType")
    terms.billingPlan = try? payload.text("renewalBillingPlanType")
    terms.winBackOfferIDs = Self.winBackOfferIDs(payload)
    terms.items = AdvancedCommerceItem.all(payload)
    // https://developer.apple.com/documentation/appstoreserverapi/renewalcommitmentinfo
    if let commitment = try? payload.object("commitmentInfo") {
      terms.commitmentRenews = Bool(state: try? commitment.code("commitmentAutoRenewStatus"))
      terms.commitmentEndsAt = try? commitment.moment("commitmentRenewalDate")
      terms.commitmentProductID = (try? commitment.text("commitmentAutoRenewProductId")).map { ProductID($0) }
      terms.commitmentBillingPlan = try? commitment.text("commitmentRenewalBillingPlanType")
      terms.commitmentPrice = try? commitment.number("commitmentRenewalPrice")
    }
    guard let checked = terms.checked else { return nil }
    self = checked
  }

  /// The most offers that are kept, and the bytes of the longest ID.
  private static let (mostOffers, longestOffer) = (20, 64)

  /// Unreadable and too long IDs are left out.
  private static func winBackOfferIDs(_ payload: JSONValue) -> [String]? {
    let ids = payload["eligibleWinBackOfferIds"]?.elements.compactMap(\.string)
      .filter { (1...longestOffer).contains($0.utf8.count) }
    return ids.flatMap { $0.isEmpty ? nil : Array($0.prefix(mostOffers)) }
  }
}

extension AdvancedCommerceItem {
  /// The items of a transaction's or a renewal's `advancedCommerceInfo`.
  fileprivate static func all(_ payload: JSONValue) -> [AdvancedCommerceItem] {
    let info = try? payload.object("advancedCommerceInfo")
    return (info?["items"]?.elements ?? []).compactMap { item in
      guard item.isObject, let sku = try? item.text("SKU") else { return nil }
      return AdvancedCommerceItem(
        sku: sku, name: try? item.text("displayName"), price: try? item.number("price"),
        revokedAt: try? item.moment("revocationDate"))
    }
  }
}
