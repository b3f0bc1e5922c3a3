package import Entitlements
import JSON
package import struct FoundationEssentials.Date

/// The body of an answer of `verifyReceipt`, decoded.
///
/// Tolerant in spelling, strict in meaning: a value that is there and cannot be read fails the whole answer.
///
/// https://developer.apple.com/documentation/appstorereceipts/responsebody
package struct VerifyReceiptResponse: Hashable, Sendable {
  /// What was sent to Apple.
  package enum Style: Hashable, Sendable {
    /// An app receipt (iOS 7 and later): `receipt` describes the app, and rows are in lists.
    case app
    /// A transaction receipt (iOS 6): `receipt` is itself the one row.
    case transaction
  }

  package var status: AppleStatus
  package var style: Style
  /// `environment` as sent.
  package var environmentName: String?
  /// `receipt_type` as sent.
  package var receiptType: String?
  /// `is-retryable`; only with the statuses 21100 to 21199.
  package var isRetryable: Bool?
  /// Whether Apple's server reported an exception of its own.
  package var hasException: Bool
  package var bundleID: BundleID?
  /// Apple's clock on the answer.
  package var requestDate: Date?
  /// When the receipt that was sent was made.
  package var creationDate: Date?
  /// When the receipt itself ends: volume purchases only.
  package var expirationDate: Date?
  /// `receipt.in_app`; iOS 6-style: `receipt` itself.
  package var receiptRows: [VerifyReceiptRow]
  /// `latest_receipt_info`; with 21006 `latest_expired_receipt_info`. `nil` where the answer has none, or an empty one.
  package var latestRows: [VerifyReceiptRow]?
  /// `pending_renewal_info`; iOS 6-style: the same facts of the top level. `nil` where the answer has none.
  package var renewals: [VerifyReceiptRenewal]?

  /// The store that the answer names: its `environment`, else the receipt's type.
  package var environment: StoreEnvironment? {
    Self.environment(named: environmentName) ?? Self.environment(receiptType: receiptType)
  }

  private static let requestDateNames: AppleDateNames = "request_date"
  private static let creationDateNames: AppleDateNames = "receipt_creation_date"
  private static let expirationDateNames: AppleDateNames = "expiration_date"

  /// All that is looked at: about half of an answer. The rest (`latest_receipt`, the same moments once more as text) is
  /// stepped over.
  static let selection = JSONSelection(
    [
      "bid", "bundle_id", "environment", "exception", "in_app", "is-retryable", "latest_expired_receipt_info",
      "latest_receipt_info", "pending_renewal_info", "receipt", "receipt_type", "status",
    ] + VerifyReceiptRow.names + VerifyReceiptRenewal.names,
    falseByDefault: VerifyReceiptRow.flags,
    precedences: ([requestDateNames, creationDateNames, expirationDateNames] + VerifyReceiptRow.dates
      + [VerifyReceiptRenewal.gracePeriodExpiryDate]).map(\.precedence))

  /// - Parameter body: a whole answer, or what `selection` leaves of it.
  /// - Throws: `JSONError` for a body without a readable status, a verdict without its receipt, and for whatever is
  ///   there and cannot be read. What comes along with a status that is no verdict is ignored, whatever it looks like.
  init(_ body: JSONValue) throws(JSONError) {
    guard let number = try body.integer("status") else { throw body.missing("status") }
    guard let code = Int(exactly: number) else { throw body.unreadable("status") }
    let status = AppleStatus(rawValue: code)
    self.status = status
    hasException = body["exception"] != nil
    if status.isVerdict {
      isRetryable = nil
      environmentName = try body.text("environment")
      let receipt = try body.object("receipt")
      if status == .valid, receipt == nil { throw body.missing("receipt") }
      self.style = try Self.style(of: receipt, in: body)
      receiptType = try receipt?.text("receipt_type")
      requestDate = try receipt?.date(Self.requestDateNames)
      creationDate = try receipt?.date(Self.creationDateNames)
      expirationDate = try receipt?.date(Self.expirationDateNames)
      let latest = try Self.latestElements(of: body, status: status)
      latestRows = try latest.map { elements throws(JSONError) in try Self.rows(elements) }
      bundleID = try Self.bundleID(receipt: receipt, latest: latest?.first)
      switch style {
      case .app:
        receiptRows = try Self.rows(receipt?.objects("in_app") ?? [])
        renewals = try Self.renewals(body, of: nil)
      case .transaction:
        receiptRows = try receipt.map { receipt throws(JSONError) in try Self.rows([receipt]) } ?? []
        renewals = try Self.renewals(body, of: (latestRows ?? receiptRows).first?.purchase)
      }
    } else {
      style = .app
      // Not said and not understood are the same here: what Apple has trouble with is asked again.
      isRetryable = (try? body.flag("is-retryable")) ?? nil
      environmentName = (try? body.text("environment")) ?? nil
      receiptRows = []
    }
  }

  /// - Throws: `JSONError` for a `receipt` that is neither a description of an app nor a row.
  private static func style(of receipt: JSONValue?, in body: JSONValue) throws(JSONError) -> Style {
    guard let receipt else {
      guard try latestElements(of: body, status: .expired) != nil else { throw body.missing("receipt") }
      return .transaction
    }
    if receipt["in_app"] != nil || receipt["bundle_id"] != nil { return .app }
    guard receipt["product_id"] != nil || receipt["transaction_id"] != nil else { throw receipt.missing("in_app") }
    return .transaction
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

  private static func rows(_ elements: [JSONValue]) throws(JSONError) -> [VerifyReceiptRow] {
    var rows: [VerifyReceiptRow] = []
    rows.reserveCapacity(elements.count)
    for element in elements { rows.append(try VerifyReceiptRow(element)) }
    return rows
  }

  /// - Parameter row: the row of an iOS 6-style answer, whose renewal facts may stand at the top level.
  private static func renewals(_ body: JSONValue, of row: Purchase?) throws(JSONError) -> [VerifyReceiptRenewal]? {
    if let elements = try body.objects("pending_renewal_info"), row == nil || !elements.isEmpty {
      var renewals: [VerifyReceiptRenewal] = []
      for element in elements { renewals.append(try VerifyReceiptRenewal(element)) }
      return renewals
    }
    let facts = [
      "auto_renew_status", "auto_renew_product_id", "expiration_intent", "is_in_billing_retry_period",
      "grace_period_expires_date_ms", "grace_period_expires_date",
    ]
    guard let row, facts.contains(where: { body.kind($0) != nil }) else { return nil }
    return [try VerifyReceiptRenewal(body, of: row)]
  }

  private static func environment(named name: String?) -> StoreEnvironment? {
    switch name?.lowercased() {
    case "production": .production
    case "sandbox": .sandbox
    default: nil
    }
  }

  /// `Production`, `ProductionVPP`, `ProductionSandbox`, `ProductionVPPSandbox`; anything else says nothing.
  private static func environment(receiptType: String?) -> StoreEnvironment? {
    switch receiptType {
    case "Production", "ProductionVPP": .production
    case "ProductionSandbox", "ProductionVPPSandbox": .sandbox
    default: nil
    }
  }
}
