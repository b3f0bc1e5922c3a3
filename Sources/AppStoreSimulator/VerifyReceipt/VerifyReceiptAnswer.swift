/// Builds the bodies of verdicts in the store's own names and types.
struct VerifyReceiptAnswer: Sendable {
  var seed: ReceiptSeed
  var now: Timestamp
  var excludesOldTransactions: Bool
  /// The customer's newest receipt.
  var latestReceipt: String
  /// Writes unreadable cancellation dates.
  var hasBadDates = false

  /// A verdict without other members, such as `{"status":21007}`.
  static func bare(_ status: Int64) -> JSON { .object([("status", .integer(status))]) }

  func json() -> JSON { seed.format == .ios6 ? legacy() : modern() }

  // MARK: - App receipts

  private func modern() -> JSON {
    let state = seed.state(at: now)
    var members: [(String, JSON)] = [
      ("environment", .string(seed.environment.appleName)),
      ("receipt", receipt()),
    ]
    if state.hasSubscriptions {
      let rows = excludesOldTransactions ? newestRows(state.rows) : state.rows
      members.append(("latest_receipt_info", .array(rows.reversed().map { row($0, isLatestInfo: true) })))
      members.append(("latest_receipt", .string(latestReceipt)))
      members.append(("pending_renewal_info", .array(state.renewals.map(renewal))))
    }
    members.append(("status", 0))
    return .object(members)
  }

  /// The receipt that was sent, decoded: later refunds are not in it.
  private func receipt() -> JSON {
    let bought = seed.state(at: seed.createdAt).rows
    var members: [(String, JSON)] = [
      ("receipt_type", .string(seed.environment.receiptType)),
      ("adam_id", .integer(seed.environment.appItemID)),
      ("app_item_id", .integer(seed.environment.appItemID)),
      ("bundle_id", .string(seed.bundleID)),
      ("application_version", .string(ReceiptSeed.applicationVersion)),
      ("download_id", .integer(seed.downloadID)),
      ("version_external_identifier", .integer(ReceiptPayload.versionExternalIdentifier(seed))),
    ]
    members += triplet("receipt_creation_date", seed.createdAt)
    members += triplet("request_date", now)
    members += triplet("original_purchase_date", seed.originalPurchaseDate)
    members.append(("original_application_version", .string(seed.originalApplicationVersion)))
    members.append(("in_app", .array(bought.map { row($0, isLatestInfo: false) })))
    return .object(members)
  }

  /// The newest row of each subscription; lifetime purchases are not old transactions.
  private func newestRows(_ rows: [CustomerState.Row]) -> [CustomerState.Row] {
    rows.filter { row in
      guard row.product.isSubscription else { return true }
      return !rows.contains { $0.slot == row.slot && $0.number > row.number }
    }
  }

  private func row(_ row: CustomerState.Row, isLatestInfo: Bool) -> JSON {
    var members: [(String, JSON)] = [
      ("quantity", "1"),
      ("product_id", .string(row.product.id)),
      ("transaction_id", .string(seed.transactionID(slot: row.slot, number: row.number))),
      ("original_transaction_id", .string(seed.transactionID(slot: row.slot, number: 0))),
    ]
    members += triplet("purchase_date", row.purchasedAt)
    members += triplet("original_purchase_date", row.originallyPurchasedAt)
    if let expires = row.expiresAt {
      members += triplet("expires_date", expires)
      members.append(
        ("web_order_line_item_id", .string(String(seed.webOrderLineItemID(slot: row.slot, number: row.number)))))
    }
    if hasBadDates {
      members += ["", "_ms", "_pst"].map { ("cancellation_date" + $0, "not-a-date") }
      members.append(("cancellation_reason", "0"))
    } else if let cancelled = row.cancelledAt {
      members += triplet("cancellation_date", cancelled)
      members.append(("cancellation_reason", .string(String(row.cancellationReason))))
    }
    if let token = seed.accountToken(ofSlot: row.slot) { members.append(("app_account_token", .string(token))) }
    members.append(("is_trial_period", row.isTrial ? "true" : "false"))
    if row.product.isSubscription { members.append(("is_in_intro_offer_period", "false")) }
    members.append(("in_app_ownership_type", row.isFamilyShared ? "FAMILY_SHARED" : "PURCHASED"))
    if isLatestInfo {
      if row.isUpgraded { members.append(("is_upgraded", "true")) }
      if let group = row.group { members.append(("subscription_group_identifier", .string(group))) }
    }
    return .object(members)
  }

  private func renewal(_ renewal: CustomerState.Renewal) -> JSON {
    var members: [(String, JSON)] = []
    if let intent = renewal.intent { members.append(("expiration_intent", .string(String(intent)))) }
    if let grace = renewal.graceUntil { members += triplet("grace_period_expires_date", grace) }
    members += [
      ("auto_renew_product_id", .string(renewal.nextProduct.id)),
      ("original_transaction_id", .string(seed.transactionID(slot: renewal.slot, number: 0))),
    ]
    if renewal.intent != nil { members.append(("is_in_billing_retry_period", renewal.isInRetry ? "1" : "0")) }
    members += [
      ("product_id", .string(renewal.product.id)),
      ("auto_renew_status", renewal.isOn ? "1" : "0"),
    ]
    if renewal.declinesPrice { members.append(("price_consent_status", "0")) }
    return .object(members)
  }

  private func triplet(_ name: String, _ date: Timestamp) -> [(String, JSON)] {
    DateTriplet.fields(name, date).map { ($0.0, .string($0.1)) }
  }

  // MARK: - iOS 6-style receipts

  /// `latest_receipt_info` is an object here, renewal is reported at the top level, and an ended subscription is status
  /// 21006.
  private func legacy() -> JSON {
    let state = seed.state(at: now)
    guard let sent = seed.state(at: seed.createdAt).rows.last,
      let latest = state.rows.last(where: { $0.slot == sent.slot })
    else { return Self.bare(21002) }
    var members: [(String, JSON)] = [("receipt", legacyRow(sent))]
    guard let end = latest.expiresAt else {
      members.append(("status", 0))
      return .object(members)
    }
    if let renewal = state.renewals.first(where: { $0.slot == sent.slot }) {
      members += [
        ("auto_renew_status", .integer(renewal.isOn ? 1 : 0)),
        ("auto_renew_product_id", .string(renewal.nextProduct.id)),
      ]
      if let intent = renewal.intent {
        members += [
          ("expiration_intent", .string(String(intent))),
          ("is_in_billing_retry_period", renewal.isInRetry ? "1" : "0"),
        ]
      }
    }
    if now < end {
      members += [
        ("latest_receipt_info", legacyRow(latest)), ("latest_receipt", .string(latestReceipt)), ("status", 0),
      ]
    } else {
      members += [("latest_expired_receipt_info", legacyRow(latest)), ("status", 21006)]
    }
    return .object(members)
  }

  private func legacyRow(_ row: CustomerState.Row) -> JSON {
    var fields = LegacyFields.fields(of: row, seed: seed)
    if hasBadDates {
      fields.removeAll { $0.0.hasPrefix("cancellation") }
      fields += [("cancellation_date", "not-a-date"), ("cancellation_date_ms", "not-a-date")]
    }
    return .object(fields.map { ($0.0, .string($0.1)) })
  }
}
