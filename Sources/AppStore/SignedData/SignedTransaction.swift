package import Entitlements
import JSON

package import struct FoundationEssentials.Date

/// The payload of a StoreKit 2 signed transaction, decoded. What it says is **not yet proven**: `SignedDataVerifier`
/// does that.
///
/// https://developer.apple.com/documentation/appstoreserverapi/jwstransactiondecodedpayload
package struct SignedTransaction: Hashable, Sendable {
  /// The row as the rules take it, told at the signed date.
  package var purchase: Purchase
  package var bundleID: BundleID
  /// `environment` as sent. Transactions of 2021 do not say.
  package var environmentName: String?
  /// When it was signed. Certificates are judged at this moment.
  package var signedDate: Date
  /// `type` as sent: `Auto-Renewable Subscription`, `Non-Consumable`, `Consumable`, `Non-Renewing Subscription`.
  package var productType: String?
  package var quantity: Int64?
  package var originalPurchaseDate: Date?
  /// `inAppOwnershipType` as sent; anything but `FAMILY_SHARED` counts as purchased.
  package var ownershipName: String?
  /// `offerType` as sent: 1 introductory, 2 promotional, 3 offer code, 4 win-back.
  package var offerType: Int?
  package var offerID: String?
  /// `offerDiscountType` as sent: `FREE_TRIAL`, `PAY_AS_YOU_GO`, `PAY_UP_FRONT`, `ONE_TIME`.
  package var offerDiscountType: String?
  /// `transactionReason` as sent: `PURCHASE`, `RENEWAL`.
  package var reason: String?
  /// `revocationType` as sent: `REFUND_FULL`, `REFUND_PRORATED`, `FAMILY_REVOKE`.
  package var revocationType: String?
  /// `appTransactionId`: the customer's download of the app.
  package var appTransactionID: String?
  package var storefront: String?

  package var signedEnvironment: SignedEnvironment { SignedEnvironment(name: environmentName) }

  /// Apple's store; `nil` for Xcode's, for local testing, for a name that Apple has added, and where there is no name.
  package var environment: StoreEnvironment? { signedEnvironment.store }

  /// - Throws: `JSONError` where what identifies the transaction is missing, and for a value that is there and cannot be
  ///   read.
  init(_ payload: JSONValue) throws(JSONError) {
    let signedDate = try payload.requiredMoment("signedDate")
    let revocationDate = try payload.moment("revocationDate")
    let revocationReason = try payload.code("revocationReason")
    let revocationType = try payload.text("revocationType")
    // Both are only given for what was taken back: without its date the row would read as still running.
    if revocationReason != nil || revocationType != nil, revocationDate == nil {
      throw payload.missing("revocationDate")
    }
    let ownershipName = try payload.text("inAppOwnershipType")
    let offerType = try payload.code("offerType")
    let discountType = try payload.text("offerDiscountType")
    let isTrial = discountType == "FREE_TRIAL"
    purchase = Purchase(
      productID: ProductID(try payload.required("productId")),
      transactionID: TransactionID(try payload.required("transactionId")),
      originalTransactionID: OriginalTransactionID(try payload.required("originalTransactionId")),
      webOrderLineItemID: try payload.text("webOrderLineItemId"),
      subscriptionGroupID: try payload.text("subscriptionGroupIdentifier").map { SubscriptionGroupID($0) },
      purchaseDate: try payload.moment("purchaseDate"),
      expiresDate: try payload.moment("expiresDate"),
      cancellationDate: revocationDate,
      cancellationReason: revocationReason,
      isUpgraded: try payload.flag("isUpgraded") ?? false,
      ownership: ownershipName?.uppercased() == "FAMILY_SHARED" ? .familyShared : .purchased,
      isTrial: isTrial,
      // As verifyReceipt has it: an introductory offer that is a free trial is told as a trial alone.
      isIntroductoryOffer: offerType == 1 && !isTrial,
      appAccountToken: try payload.text("appAccountToken")?.lowercased(),
      reportedAt: signedDate)
    bundleID = BundleID(try payload.required("bundleId"))
    environmentName = try payload.text("environment")
    self.signedDate = signedDate
    productType = try payload.text("type")
    quantity = try payload.number("quantity")
    originalPurchaseDate = try payload.moment("originalPurchaseDate")
    self.ownershipName = ownershipName
    self.offerType = offerType
    offerID = try payload.text("offerIdentifier")
    offerDiscountType = discountType
    reason = try payload.text("transactionReason")
    self.revocationType = revocationType
    appTransactionID = try payload.text("appTransactionId")
    storefront = try payload.text("storefront")
  }
}
