package import Entitlements
import JSON

package import struct FoundationEssentials.Date

/// The payload of a signed renewal info, decoded. What it says is **not yet proven**: `SignedDataVerifier` does that.
///
/// https://developer.apple.com/documentation/appstoreserverapi/jwsrenewalinfodecodedpayload
package struct SignedRenewalInfo: Hashable, Sendable {
  /// As the rules take it, told at the signed date.
  package var renewal: RenewalInfo
  /// The subscription that it is about.
  package var originalTransactionID: OriginalTransactionID
  /// `environment` as sent. Renewal infos of 2021 do not say.
  package var environmentName: String?
  /// When it was signed. Certificates are judged at this moment.
  package var signedDate: Date
  /// `autoRenewStatus` as sent: 1 will renew, 0 will not.
  package var autoRenewStatus: Int?
  package var priceIncreaseStatus: Int?
  package var recentSubscriptionStartDate: Date?
  /// `offerType` of the next period, as sent.
  package var offerType: Int?
  package var offerID: String?
  package var offerDiscountType: String?
  /// The UUID that the app gave at the purchase, in lower case.
  package var appAccountToken: String?
  package var appTransactionID: String?

  package var signedEnvironment: SignedEnvironment { SignedEnvironment(name: environmentName) }

  /// Apple's store; `nil` for Xcode's, for local testing, for a name that Apple has added, and where there is no name.
  package var environment: StoreEnvironment? { signedEnvironment.store }

  /// - Throws: `JSONError` where what identifies the subscription is missing, and for a value that is there and cannot be
  ///   read.
  init(_ payload: JSONValue) throws(JSONError) {
    let signedDate = try payload.requiredMoment("signedDate")
    let originalTransactionID = OriginalTransactionID(try payload.required("originalTransactionId"))
    let autoRenewStatus = try payload.code("autoRenewStatus")
    renewal = RenewalInfo(
      originalTransactionID: originalTransactionID,
      productID: try payload.text("productId").map { ProductID($0) },
      autoRenewProductID: try payload.text("autoRenewProductId").map { ProductID($0) },
      // A state that Apple adds is neither.
      autoRenews: autoRenewStatus == 1 ? true : autoRenewStatus == 0 ? false : nil,
      expirationIntent: try payload.code("expirationIntent"),
      isInBillingRetry: try payload.flag("isInBillingRetryPeriod"),
      gracePeriodExpiresDate: try payload.moment("gracePeriodExpiresDate"),
      periodEnd: try payload.moment("renewalDate"),
      reportedAt: signedDate)
    self.originalTransactionID = originalTransactionID
    environmentName = try payload.text("environment")
    self.signedDate = signedDate
    self.autoRenewStatus = autoRenewStatus
    priceIncreaseStatus = try payload.code("priceIncreaseStatus")
    recentSubscriptionStartDate = try payload.moment("recentSubscriptionStartDate")
    offerType = try payload.code("offerType")
    offerID = try payload.text("offerIdentifier")
    offerDiscountType = try payload.text("offerDiscountType")
    appAccountToken = try payload.text("appAccountToken")?.lowercased()
    appTransactionID = try payload.text("appTransactionId")
  }
}
