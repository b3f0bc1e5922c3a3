import Entitlements
import JSON

/// The decoding of an element of `pending_renewal_info`, or of the same facts at the top level of an iOS 6-style
/// answer.
///
/// https://developer.apple.com/documentation/appstorereceipts/responsebody/pending_renewal_info
enum VerifyReceiptRenewal {
  private static let gracePeriodExpiryDate: AppleDateNames = "grace_period_expires_date"

  /// - Parameter row: the row of an iOS 6-style answer: its renewal facts do not name their subscription.
  static func decode(_ element: JSONValue, of row: Purchase? = nil) throws(JSONError) -> RenewalInfo {
    RenewalInfo(
      originalTransactionID: try element.text("original_transaction_id").map { OriginalTransactionID($0) }
        ?? row?.originalTransactionID,
      productID: try element.text("product_id").map { ProductID($0) } ?? row?.productID,
      autoRenewProductID: try element.text("auto_renew_product_id").map { ProductID($0) },
      autoRenews: Bool(state: try element.state("auto_renew_status")),
      expirationIntent: try element.state("expiration_intent"),
      isInBillingRetry: Bool(state: try element.state("is_in_billing_retry_period")),
      gracePeriodExpiresDate: try element.date(gracePeriodExpiryDate))
  }
}
