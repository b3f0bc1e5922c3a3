import Entitlements
import FoundationEssentials

@testable import AppStore
@testable import JSON

/// Bodies of answers, made up; the shape is Apple's.
enum Sample {
  /// One auto-renewable row that ends on 2024-07-01 00:00 UTC.
  static let row = #"""
    {"quantity":"1","product_id":"com.example.app.pro.monthly","transaction_id":"480002000000112",
     "original_transaction_id":"480002000000001","web_order_line_item_id":"480002000000113",
     "purchase_date":"2024-06-01 00:00:00 Etc/GMT","purchase_date_ms":"1717200000000",
     "purchase_date_pst":"2024-05-31 17:00:00 America/Los_Angeles",
     "expires_date":"2024-07-01 00:00:00 Etc/GMT","expires_date_ms":"1719792000000",
     "expires_date_pst":"2024-06-30 17:00:00 America/Los_Angeles",
     "is_trial_period":"false","is_in_intro_offer_period":"false","in_app_ownership_type":"PURCHASED",
     "subscription_group_identifier":"21000001","app_account_token":"9B2C4D3E-0000-4000-8000-00000000ABCD"}
    """#

  /// The same, refunded on 2024-06-10 00:00 UTC.
  static let refundedRow = row.replacingOnce(
    #""is_trial_period""#,
    with: #"""
      "cancellation_date":"2024-06-10 00:00:00 Etc/GMT","cancellation_date_ms":"1717977600000",
      "cancellation_date_pst":"2024-06-09 17:00:00 America/Los_Angeles","cancellation_reason":"1","is_trial_period"
      """#)

  /// A purchase that never ends.
  static let lifetimeRow = #"""
    {"quantity":"1","product_id":"com.example.app.forever","transaction_id":"480002000000200",
     "original_transaction_id":"480002000000200","purchase_date_ms":"1717200000000"}
    """#

  static let renewal = #"""
    {"auto_renew_product_id":"com.example.app.pro.yearly","product_id":"com.example.app.pro.monthly",
     "original_transaction_id":"480002000000001","auto_renew_status":"1","expiration_intent":"2",
     "is_in_billing_retry_period":"1","grace_period_expires_date":"2024-07-17 00:00:00 Etc/GMT",
     "grace_period_expires_date_ms":"1721174400000"}
    """#

  static func receipt(inApp: String = row) -> String {
    #"""
    {"receipt_type":"Production","adam_id":1234567890,"bundle_id":"com.example.app","download_id":500000000000001234,
     "receipt_creation_date_ms":"1717200000000","request_date":"2024-06-15 12:00:00 Etc/GMT",
     "request_date_ms":"1718452800123","in_app":[\#(inApp)]}
    """#
  }

  static func body(
    status: String = "0", environment: String? = "Production", inApp: String = row, latest: String? = "[\(row)]",
    renewals: String? = "[\(renewal)]"
  ) -> String {
    var members = [#""status":\#(status)"#, #""receipt":\#(receipt(inApp: inApp))"#, #""latest_receipt":"AA==""#]
    if let environment { members.append(#""environment":"\#(environment)""#) }
    if let latest { members.append(#""latest_receipt_info":\#(latest)"#) }
    if let renewals { members.append(#""pending_renewal_info":\#(renewals)"#) }
    return "{\(members.joined(separator: ","))}"
  }

  /// A row of an iOS 6-style answer: ends on 2024-07-01 00:00 UTC.
  static let transaction = #"""
    {"bid":"com.example.app","bvrs":"42","item_id":"570504929","product_id":"com.example.app.pro.monthly",
     "transaction_id":"480002000000112","original_transaction_id":"480002000000001","quantity":"1",
     "purchase_date":"2024-06-01 00:00:00 Etc/GMT","purchase_date_ms":"1717200000000",
     "expires_date":"1719792000000","expires_date_formatted":"2024-07-01 00:00:00 Etc/GMT",
     "expires_date_formatted_pst":"2024-06-30 17:00:00 America/Los_Angeles"}
    """#

  static func decode(_ text: String) throws(JSONError) -> VerifyReceiptResponse {
    try VerifyReceiptResponse(JSONDocument(Array(text.utf8)).root)
  }

  /// A row decoded as the only one of an answer.
  static func decodeRow(_ text: String) throws(JSONError) -> Purchase? {
    try decode(body(inApp: "", latest: "[\(text)]")).latestRows?.first
  }
}

extension String {
  /// The first occurrence replaced. The text unchanged if there is none.
  func replacingOnce(_ target: String, with replacement: String) -> String {
    guard let range = self.firstRange(of: target) else { return self }
    var copy = self
    copy.replaceSubrange(range, with: replacement)
    return copy
  }
}

/// A moment in milliseconds since 1970.
func moment(_ milliseconds: Int64) -> Date { Date(timeIntervalSince1970: Double(milliseconds) / 1000) }
