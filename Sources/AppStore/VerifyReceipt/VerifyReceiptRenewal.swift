package import Entitlements
import JSON

/// An element of `pending_renewal_info`, or the same facts at the top level of an iOS 6-style answer.
///
/// https://developer.apple.com/documentation/appstorereceipts/responsebody/pending_renewal_info
package struct VerifyReceiptRenewal: Hashable, Sendable {
  package var renewal: RenewalInfo
  /// `auto_renew_status` as sent: 1 will renew, 0 will not.
  package var autoRenewStatus: Int?
  /// `is_in_billing_retry_period` as sent: 1 still tries, 0 has stopped.
  package var billingRetryStatus: Int?
  package var priceConsentStatus: Int?
  package var priceIncreaseStatus: Int?
  package var promotionalOfferID: String?
  package var offerCodeReferenceName: String?

  static let gracePeriodExpiryDate: AppleDateNames = "grace_period_expires_date"

  /// What is looked at, but for the date.
  static let names = [
    "auto_renew_product_id", "auto_renew_status", "expiration_intent", "is_in_billing_retry_period",
    "offer_code_ref_name", "original_transaction_id", "price_consent_status", "price_increase_status", "product_id",
    "promotional_offer_id",
  ]

  /// - Parameter row: what an iOS 6-style answer speaks of; its elements do not name their subscription themselves.
  init(_ element: JSONValue, of row: Purchase? = nil) throws(JSONError) {
    let autoRenewStatus = try element.state("auto_renew_status")
    let billingRetryStatus = try element.state("is_in_billing_retry_period")
    self.autoRenewStatus = autoRenewStatus
    self.billingRetryStatus = billingRetryStatus
    priceConsentStatus = try element.state("price_consent_status")
    priceIncreaseStatus = try element.state("price_increase_status")
    promotionalOfferID = try element.text("promotional_offer_id")
    offerCodeReferenceName = try element.text("offer_code_ref_name")
    renewal = RenewalInfo(
      originalTransactionID: try element.text("original_transaction_id").map { OriginalTransactionID($0) }
        ?? row?.originalTransactionID,
      productID: try element.text("product_id").map { ProductID($0) } ?? row?.productID,
      autoRenewProductID: try element.text("auto_renew_product_id").map { ProductID($0) },
      autoRenews: Self.yesOrNo(autoRenewStatus),
      expirationIntent: try element.state("expiration_intent"),
      isInBillingRetry: Self.yesOrNo(billingRetryStatus),
      gracePeriodExpiresDate: try element.date(Self.gracePeriodExpiryDate))
  }

  /// A state that Apple adds is neither.
  private static func yesOrNo(_ state: Int?) -> Bool? {
    switch state {
    case 0: false
    case 1: true
    default: nil
    }
  }
}
