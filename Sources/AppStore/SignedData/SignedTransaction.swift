package import Entitlements
import JSON

package import struct FoundationEssentials.Date

/// The payload of a StoreKit 2 signed transaction, decoded. It is **not proven yet**: see `SignedDataVerifier`.
///
/// https://developer.apple.com/documentation/appstoreserverapi/jwstransactiondecodedpayload
package struct SignedTransaction: SignedContent {
  /// The transaction for the rules, reported at the signed date.
  package var purchase: Purchase
  package var bundleID: BundleID
  /// The ID before a migration to the Advanced Commerce API.
  package var previousOriginalTransactionID: String? {
    purchase.sale?.terms?.previousOriginalTransactionID?.rawValue
  }
  /// `environment` as sent; missing in 2021.
  var environmentName: String?
  /// The date of the signature, at which the certificates have to be valid.
  package var signedDate: Date
  /// `type` as sent: `Auto-Renewable Subscription`, `Non-Consumable`, `Consumable`, `Non-Renewing Subscription`.
  var productType: String?
  package var isAutoRenewable: Bool { productType == "Auto-Renewable Subscription" }
  var quantity: Int64?
  var originalPurchaseDate: Date?
  var offerID: String?
  /// `revocationType` as sent: `REFUND_FULL`, `REFUND_PRORATED`, `FAMILY_REVOKE`.
  package var revocationType: String?

  package var signedEnvironment: SignedEnvironment { SignedEnvironment(name: environmentName) }

  /// Apple's store; `nil` for Xcode's, for local testing, for a name that Apple has added, and where there is no name.
  package var environment: StoreEnvironment? { signedEnvironment.store }

  /// - Throws: `JSONError` if the transaction is not named, and for an unreadable value.
  init(_ payload: JSONValue) throws(JSONError) {
    let signedDate = try payload.requiredMoment("signedDate")
    let revocationDate = try payload.moment("revocationDate")
    let revocationReason = try payload.code("revocationReason")
    let revocationType = try payload.text("revocationType")
    // Only a refund has these: without its date the transaction would read as still running.
    if revocationReason != nil || revocationType != nil, revocationDate == nil {
      throw payload.missing("revocationDate")
    }
    // No purchase is refused for these.
    let offerType = try? payload.code("offerType")
    let discountType = try? payload.text("offerDiscountType")
    let isTrial = discountType == "FREE_TRIAL"
    let purchaseDate = try payload.moment("purchaseDate")
    let originalDate = try? payload.moment("originalPurchaseDate")
    let expiresDate = try payload.moment("expiresDate")
    purchase = Purchase(
      productID: ProductID(try payload.required("productId")),
      transactionID: TransactionID(try payload.required("transactionId")),
      originalTransactionID: OriginalTransactionID(try payload.required("originalTransactionId")),
      webOrderLineItemID: try? payload.text("webOrderLineItemId"),
      subscriptionGroupID: try payload.text("subscriptionGroupIdentifier").map { SubscriptionGroupID($0) },
      purchaseDate: Purchase.date(purchaseDate, originally: originalDate, until: expiresDate),
      expiresDate: expiresDate,
      cancellationDate: revocationDate,
      cancellationReason: revocationReason,
      isUpgraded: try payload.flag("isUpgraded") ?? false,
      ownership: Purchase.Ownership(ofApples: try payload.text("inAppOwnershipType")),
      isTrial: isTrial,
      // As in verifyReceipt, a free trial is not also an introductory offer.
      isIntroductoryOffer: offerType == 1 && !isTrial,
      isFirst: Purchase.isFirst(purchaseDate, originally: originalDate),
      appAccountToken: try payload.text("appAccountToken")?.lowercased(),
      reportedAt: signedDate,
      sale: Self.sale(payload, offerType: offerType, discountType: discountType, revocationType: revocationType))
    bundleID = BundleID(try payload.required("bundleId"))
    environmentName = try payload.text("environment")
    self.signedDate = signedDate
    productType = try payload.text("type")
    quantity = try? payload.number("quantity")
    originalPurchaseDate = originalDate
    offerID = try? payload.text("offerIdentifier")
    self.revocationType = revocationType
  }

  /// A member that cannot be read is left out: no purchase is refused for its price.
  /// A full refund says so, lest an earlier report of a prorated one stands.
  private static func sale(
    _ payload: JSONValue, offerType: Int?, discountType: String?, revocationType: String?
  ) -> Purchase.Sale? {
    var terms = Purchase.Terms(payload)
    (terms.discountType, terms.revocationType) = (discountType, revocationType)
    return Purchase.Sale(
      price: try? payload.number("price"), currency: try? payload.text("currency"),
      storefront: try? payload.text("storefront"), offerType: offerType, offerPeriod: try? payload.text("offerPeriod"),
      offerID: try? payload.text("offerIdentifier"),
      revocationPercentage: revocationType == "REFUND_FULL" ? 100_000 : (try? payload.number("revocationPercentage")),
      terms: terms)
  }
}
