import Entitlements
import JSON

extension Purchase {
  private static let purchaseDateNames: AppleDateNames = "purchase_date"
  private static let originalDateNames: AppleDateNames = "original_purchase_date"
  private static let expiryDateNames: AppleDateNames = "expires_date"
  private static let cancellationDateNames: AppleDateNames = "cancellation_date"

  /// - Parameter row: of `in_app` or `latest_receipt_info`, or the one object of an iOS 6-style answer:
  ///   https://developer.apple.com/documentation/appstorereceipts/responsebody/latest_receipt_info
  /// - Throws: `JSONError` for a row without a product or any transaction ID, and for an unreadable value.
  init(row: JSONValue) throws(JSONError) {
    guard let product = try row.text("product_id") else { throw row.missing("product_id") }
    // Each replaces the other: a first purchase is its own original.
    let transaction = try row.text("transaction_id")
    let original = try row.text("original_transaction_id")
    guard let transactionID = transaction ?? original, let originalID = original ?? transaction else {
      throw row.missing("transaction_id")
    }
    let cancellationDate = try row.date(Self.cancellationDateNames)
    let cancellationReason = try row.state("cancellation_reason")
    // Only a refund has a reason: without its date the row would read as still running.
    if cancellationReason != nil, cancellationDate == nil { throw row.missing("cancellation_date") }

    let purchaseDate = try row.date(Self.purchaseDateNames)
    // No purchase is refused for it.
    let originalDate = (try? row.date(Self.originalDateNames)) ?? nil
    let expiresDate = try row.date(Self.expiryDateNames)
    self.init(
      productID: ProductID(product),
      transactionID: TransactionID(transactionID),
      originalTransactionID: OriginalTransactionID(originalID),
      webOrderLineItemID: try row.text("web_order_line_item_id"),
      subscriptionGroupID: try row.text("subscription_group_identifier").map { SubscriptionGroupID($0) },
      purchaseDate: Purchase.date(purchaseDate, originally: originalDate, until: expiresDate),
      expiresDate: expiresDate,
      cancellationDate: cancellationDate,
      cancellationReason: cancellationReason,
      isUpgraded: try row.flag("is_upgraded") ?? false,
      ownership: Ownership(ofApples: try row.text("in_app_ownership_type")),
      isTrial: try row.flag("is_trial_period") ?? false,
      isIntroductoryOffer: try row.flag("is_in_intro_offer_period") ?? false,
      isFirst: Purchase.isFirst(purchaseDate, originally: originalDate),
      appAccountToken: try row.text("app_account_token")?.lowercased())
  }
}
