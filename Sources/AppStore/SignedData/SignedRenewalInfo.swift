package import Entitlements
import JSON

package import struct FoundationEssentials.Date

/// The payload of a signed renewal info, decoded. It is **not proven yet**: see `SignedDataVerifier`.
///
/// https://developer.apple.com/documentation/appstoreserverapi/jwsrenewalinfodecodedpayload
package struct SignedRenewalInfo: SignedContent {
  /// The renewal info for the rules, reported at the signed date.
  var renewal: RenewalInfo
  var originalTransactionID: OriginalTransactionID
  /// `priceIncreaseStatus` as sent: 0 not answered, 1 agreed.
  package var priceIncreaseStatus: Int? { renewal.terms?.priceIncreaseStatus }
  /// `environment` as sent; missing in 2021.
  var environmentName: String?
  /// The date of the signature, at which the certificates have to be valid.
  package var signedDate: Date

  package var signedEnvironment: SignedEnvironment { SignedEnvironment(name: environmentName) }

  /// Apple's store; `nil` for Xcode's, for local testing, for a name that Apple has added, and where there is no name.
  package var environment: StoreEnvironment? { signedEnvironment.store }

  /// - Throws: `JSONError` if the subscription is not named, and for an unreadable value.
  init(_ payload: JSONValue) throws(JSONError) {
    let signedDate = try payload.requiredMoment("signedDate")
    let originalTransactionID = OriginalTransactionID(try payload.required("originalTransactionId"))
    renewal = RenewalInfo(
      originalTransactionID: originalTransactionID,
      productID: try payload.text("productId").map { ProductID($0) },
      autoRenewProductID: try payload.text("autoRenewProductId").map { ProductID($0) },
      autoRenews: Bool(state: try payload.code("autoRenewStatus")),
      expirationIntent: try payload.code("expirationIntent"),
      isInBillingRetry: try payload.flag("isInBillingRetryPeriod"),
      gracePeriodExpiresDate: try payload.moment("gracePeriodExpiresDate"),
      periodEnd: try payload.moment("renewalDate"),
      reportedAt: signedDate)
    renewal.terms = RenewalTerms(payload, signedAt: signedDate)
    self.originalTransactionID = originalTransactionID
    environmentName = try payload.text("environment")
    self.signedDate = signedDate
  }
}
