import Entitlements
import JSON

import struct FoundationEssentials.Date

/// The body of an answer of `verifyReceipt`, decoded.
///
/// It is tolerant in spelling and strict in meaning: one unreadable value fails the whole answer.
///
/// https://developer.apple.com/documentation/appstorereceipts/responsebody
package struct VerifyReceiptResponse: Hashable, Sendable {
  var status: AppleStatus
  var environmentName: String?
  var receiptType: String?
  /// `is-retryable`, which real answers write with an underscore, too; only with the statuses 21100 to 21199.
  var isRetryable: Bool?
  var bundleID: BundleID?
  /// Apple's clock on the answer.
  var requestDate: Date?
  /// The creation date of the submitted receipt.
  var creationDate: Date?
  /// `receipt.in_app`; iOS 6-style: `receipt` itself.
  var receiptRows: [Purchase]
  /// `latest_receipt_info`; with 21006 `latest_expired_receipt_info`. `nil` if missing or empty.
  var latestRows: [Purchase]?
  /// `pending_renewal_info`; iOS 6-style: the same facts at the top level. `nil` if missing.
  var renewals: [RenewalInfo]?
  /// The customer's first download of the app, from `receipt`. A member that cannot be read is left out: no purchase is
  /// refused for it.
  var originalVersion: String?
  var originalPurchaseDate: Date?

  /// The store that the answer names: its `environment`, else the receipt's type.
  var environment: StoreEnvironment? {
    environmentName.flatMap { StoreEnvironment(rawValue: $0.lowercased()) }
      ?? StoreEnvironment(receiptType: receiptType)
  }

  private static let requestDateNames: AppleDateNames = "request_date"
  private static let creationDateNames: AppleDateNames = "receipt_creation_date"
  private static let originalPurchaseDateNames: AppleDateNames = "original_purchase_date"

  /// - Throws: `JSONError` for a body without a readable status, a verdict without its receipt, and any unreadable
  ///   value. With a status that is no verdict, the rest of the body is ignored.
  init(_ body: JSONValue) throws(JSONError) {
    guard let number = try body.integer("status") else { throw body.missing("status") }
    guard let code = Int(exactly: number) else { throw body.unreadable("status") }
    let status = AppleStatus(rawValue: code)
    self.status = status
    if status.isVerdict {
      isRetryable = nil
      environmentName = try body.text("environment")
      let receipt = try body.object("receipt")
      if status == .valid, receipt == nil { throw body.missing("receipt") }
      let isTransaction = try Self.isTransaction(receipt, in: body)
      receiptType = try receipt?.text("receipt_type")
      requestDate = try receipt?.date(Self.requestDateNames)
      creationDate = try receipt?.date(Self.creationDateNames)
      let latest = try Self.latestElements(of: body, status: status)
      latestRows = try latest.map { elements throws(JSONError) in try Self.rows(elements) }
      bundleID = try Self.bundleID(receipt: receipt, latest: latest?.first)
      receiptRows = try Self.rows((isTransaction ? receipt.map { [$0] } : receipt?.objects("in_app")) ?? [])
      renewals = try Self.renewals(body, of: isTransaction ? (latestRows ?? receiptRows).first : nil)
      if !isTransaction, let receipt {
        originalVersion = (try? receipt.text("original_application_version")) ?? nil
        originalPurchaseDate = (try? receipt.date(Self.originalPurchaseDateNames)) ?? nil
      }
    } else {
      // Missing and unreadable are the same here: Apple's trouble is retried.
      isRetryable = (try? body.flag("is-retryable") ?? body.flag("is_retryable")) ?? nil
      environmentName = (try? body.text("environment")) ?? nil
      receiptRows = []
    }
  }

  /// Whether a transaction receipt (iOS 6) was submitted: `receipt` is then itself the only row. For an app receipt
  /// (iOS 7 and later) it describes the app.
  ///
  /// - Throws: `JSONError` for a `receipt` that is neither.
  private static func isTransaction(_ receipt: JSONValue?, in body: JSONValue) throws(JSONError) -> Bool {
    guard let receipt else {
      guard try latestElements(of: body, status: .expired) != nil else { throw body.missing("receipt") }
      return true
    }
    if receipt["in_app"] != nil || receipt["bundle_id"] != nil { return false }
    guard receipt["product_id"] != nil || receipt["transaction_id"] != nil else { throw receipt.missing("in_app") }
    return true
  }

  /// `bundle_id`; `bid` in iOS 6-style answers.
  private static func bundleID(receipt: JSONValue?, latest: JSONValue?) throws(JSONError) -> BundleID? {
    if let name = try receipt?.text("bundle_id") { return BundleID(name) }
    if let name = try receipt?.text("bid") { return BundleID(name) }
    return try latest?.text("bid").map { BundleID($0) }
  }

  private static func latestElements(of body: JSONValue, status: AppleStatus) throws(JSONError) -> [JSONValue]? {
    let latest = try body.objects("latest_receipt_info")
    let expired = try body.objects("latest_expired_receipt_info")
    for elements in status == .expired ? [expired, latest] : [latest, expired] {
      if let elements, !elements.isEmpty { return elements }
    }
    return nil
  }

  private static func rows(_ elements: [JSONValue]) throws(JSONError) -> [Purchase] {
    var rows: [Purchase] = []
    rows.reserveCapacity(elements.count)
    for element in elements { rows.append(try Purchase(row: element)) }
    return rows
  }

  /// - Parameter row: the row of an iOS 6-style answer: its renewal facts may stand at the top level.
  private static func renewals(_ body: JSONValue, of row: Purchase?) throws(JSONError) -> [RenewalInfo]? {
    if let elements = try body.objects("pending_renewal_info"), row == nil || !elements.isEmpty {
      var renewals: [RenewalInfo] = []
      for element in elements { renewals.append(try VerifyReceiptRenewal.decode(element)) }
      return renewals
    }
    let facts = [
      "auto_renew_status", "auto_renew_product_id", "expiration_intent", "is_in_billing_retry_period",
      "grace_period_expires_date_ms", "grace_period_expires_date",
    ]
    guard let row, facts.contains(where: { body.kind($0) != nil }) else { return nil }
    return [try VerifyReceiptRenewal.decode(body, of: row)]
  }
}
