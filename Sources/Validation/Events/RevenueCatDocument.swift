import Access
import Entitlements
import JSON
import Ledger
import Webhooks

import struct FoundationEssentials.Date

/// An event in the shape of RevenueCat's webhooks, for receivers that are written for those.
///
///     ours                                      theirs
///     subscription.started, trial.started       INITIAL_PURCHASE; NON_RENEWING_PURCHASE for life;
///                                               RENEWAL of a subscription that had ended
///     subscription.renewed                      RENEWAL
///     trial.converted                           RENEWAL, is_trial_conversion; INITIAL_PURCHASE after the app's own trial
///     renewal_off, renewal_on                   CANCELLATION, UNCANCELLATION
///     billing_issue                             BILLING_ISSUE
///     expired, grace_ended, trial.expired       EXPIRATION
///     refunded                                  EXPIRATION, expiration_reason CUSTOMER_SUPPORT
///     product_changed                           RENEWAL; INITIAL_PURCHASE of another subscription;
///                                               NON_RENEWING_PURCHASE for life
///     transferred, to the new user              TRANSFER, where the former one keeps nothing; else INITIAL_PURCHASE or
///                                               NON_RENEWING_PURCHASE, and EXPIRATION to the former one
///     grant.started, the app's own trial        NON_RENEWING_PURCHASE, store PROMOTIONAL
///     grant.ended, the end of that trial        EXPIRATION, store PROMOTIONAL
///     apple.renewal_extended                    SUBSCRIPTION_EXTENDED
///
/// Each event is one message, so it is the one by which receivers end access or extend it: CANCELLATION ends none, and
/// PRODUCT_CHANGE announces what the next RENEWAL brings. Where another product decides, an EXPIRATION before it ends those
/// entitlements of the former one that are gone, as a receiver keeps them until it is told.
///
/// Other events have no counterpart, and are not sent. Members that only RevenueCat knows are `null`.
///
/// Prices add up, as RevenueCat's do: an event has the price where money comes, the negative of it where it goes back, and
/// zero where none moves, as where a purchase decides again. `price` is in US dollars, and `null` for another currency.
///
/// https://www.revenuecat.com/docs/integrations/webhooks/event-types-and-fields
struct RevenueCatDocument {
  /// The receiver's name of the app.
  var appID: String?
  /// The customer's, as they are now.
  var attributes: [String: CustomerAttribute] = [:]
  var catalog: Catalog
  /// Which tiers are entitlements.
  var scope: Plans.EntitlementScope

  /// Whether events of a type may have a counterpart.
  static func mayHave(_ type: String) -> Bool {
    guard let type = EventType(rawValue: type) else { return false }
    return type == .renewalExtended || ![.trialRefused, .limitReached].contains(type) && !type.isOfApple
  }

  /// The messages of an event, in their order; none for one without a counterpart.
  func messages(of event: ChangeEvent) -> [WebhookMessage] {
    guard let type = EventType(rawValue: event.type) else { return [] }
    switch type {
    case .subscriptionTransferred: return transfer(event)
    case .grantStarted, .grantEnded: return given(event, isStart: type == .grantStarted)
    case .trialStarted where event.detail.trial != nil: return given(event, isStart: true)
    case .trialExpired where event.detail.trial != nil: return given(event, isStart: false)
    case .renewalExtended: return event.detail.notice.map { extended(event, $0) } ?? []
    case .trialRefused, .limitReached, .priceIncrease, .priceChange, .consumptionRequest, .refundDeclined,
      .renewalExtension, .metadataUpdate, .migration, .externalPurchaseToken, .consentRescinded, .otherNotification:
      return []
    case .subscriptionStarted, .subscriptionRenewed, .renewalOff, .renewalOn, .billingIssue, .graceEnded,
      .subscriptionExpired, .subscriptionRefunded, .productChanged, .trialStarted, .trialConverted, .trialExpired:
      guard let verdict = event.verdict else { return [] }
      return ended(event, verdict) + [purchase(event, type, verdict)]
    }
  }

  private func message(
    _ event: ChangeEvent, _ type: String, id: String? = nil, _ addMembers: (inout JSONWriter) -> Void
  ) -> WebhookMessage {
    let id = id ?? event.id
    let body = JSONWriter.object { json in
      json.member("api_version", "1.0")
      json.object("event") { json in
        json.member("type", type)
        json.member("id", id)
        json.member("app_id", appID)
        json.member("event_timestamp_ms", event.at.millisecondsSince1970)
        addMembers(&json)
      }
    }
    return WebhookMessage(id: id, body: body)
  }

  // MARK: Entitlements

  private func entitlements(of verdict: Entitlement?) -> [Tier] {
    guard let verdict, verdict.status != .expired else { return [] }
    return scope.entitlements(of: verdict.tier, in: catalog)
  }

  /// The entitlements of a tier that the customer no longer has, by a purchase or by a grant.
  private func lost(_ tier: Tier, _ event: ChangeEvent) -> [Tier] {
    let present = entitlements(of: event.entitlement)
    return scope.entitlements(of: tier, in: catalog).filter { !present.contains($0) }
  }

  /// An empty list is written as `null`: a receiver revokes nothing then.
  private static func write(_ entitlements: [Tier], to json: inout JSONWriter) {
    guard !entitlements.isEmpty else { return json.member("entitlement_ids", raw: "null") }
    json.array("entitlement_ids") { array in for tier in entitlements { array.value(tier.rawValue) } }
  }

  private func addUser(of event: ChangeEvent, to json: inout JSONWriter) {
    let user = event.user.rawValue
    json.member("app_user_id", user)
    json.member("original_app_user_id", user)
    json.array("aliases") { $0.value(user) }
    json.object("subscriber_attributes") { json in
      for (name, attribute) in attributes.sorted(by: { $0.key < $1.key }) {
        guard let value = attribute.value else { continue }
        json.object(name) { json in
          json.member("value", value)
          json.member("updated_at_ms", attribute.updatedAtMilliseconds)
        }
      }
    }
  }

  // MARK: Messages

  /// Receivers move everything of a customer at a TRANSFER.
  private func transfer(_ event: ChangeEvent) -> [WebhookMessage] {
    guard let from = event.detail.from, let to = event.detail.to else { return [] }
    if event.detail.isPart != true {
      guard to == event.user else { return [] }
      return [
        message(event, "TRANSFER") { json in
          json.array("transferred_from") { $0.value(from.shown) }
          json.array("transferred_to") { $0.value(to.shown) }
        }
      ]
    }
    func decided(_ verdict: Entitlement?) -> Entitlement? {
      guard let purchase = event.detail.purchase, let verdict, verdict.givesAccess,
        verdict.originalTransactionID == purchase.originalTransactionID, verdict.environment == purchase.environment
      else { return nil }
      return verdict
    }
    if to == event.user {
      guard let verdict = decided(event.verdict) else { return [] }
      return [purchase(event, .subscriptionTransferred, verdict)]
    }
    return decided(event.formerVerdict).map { [expiration(event, of: $0, isRefund: false)] } ?? []
  }

  private func given(_ event: ChangeEvent, isStart: Bool) -> [WebhookMessage] {
    guard let period = event.detail.given else { return [] }
    let message = message(event, isStart ? "NON_RENEWING_PURCHASE" : "EXPIRATION") { json in
      addUser(of: event, to: &json)
      json.member("product_id", "countersign_\(period.kind.rawValue)_\(period.tier)")
      Self.write(
        isStart ? scope.entitlements(of: period.tier, in: catalog) : lost(period.tier, event), to: &json)
      json.member("period_type", "PROMOTIONAL")
      json.member("purchased_at_ms", period.startsAt.millisecondsSince1970)
      json.member("expiration_at_ms", (event.detail.endedAt ?? period.endsAt).millisecondsSince1970)
      json.member("store", "PROMOTIONAL")
      json.member("environment", "PRODUCTION")
      json.member("transaction_id", "grant_\(period.id)")
      json.member("original_transaction_id", "grant_\(period.id)")
      json.member("price", raw: "null")
      if !isStart { json.member("expiration_reason", "UNKNOWN") }
    }
    return [message]
  }

  /// The new end of a period that Apple prolonged.
  private func extended(_ event: ChangeEvent, _ notice: StoreNotice) -> [WebhookMessage] {
    guard event.user != .nobody, let end = notice.expiresAt,
      let product = notice.productID.flatMap({ catalog.products[ProductID($0)] })
    else { return [] }
    let message = message(event, "SUBSCRIPTION_EXTENDED") { json in
      addUser(of: event, to: &json)
      json.member("product_id", notice.productID)
      Self.write(scope.entitlements(of: product.tier, in: catalog), to: &json)
      json.member("period_type", "NORMAL")
      json.member("purchased_at_ms", raw: "null")
      json.member("expiration_at_ms", end.millisecondsSince1970)
      json.member("store", "APP_STORE")
      json.member("environment", notice.environment?.uppercased())
      json.member("transaction_id", notice.transactionID)
      json.member("original_transaction_id", notice.originalTransactionID)
      Self.writeMoney(nil, .renewalExtended, to: &json)
    }
    return [message]
  }

  /// The end of what another product has replaced. A former purchase that runs on beside it has ended nothing.
  private func ended(_ event: ChangeEvent, _ verdict: Entitlement) -> [WebhookMessage] {
    guard let former = event.formerVerdict, former.givesAccess, verdict.givesAccess, former.productID != nil,
      former.productID != verdict.productID
    else { return [] }
    let cause = verdict.explanation.passedOver.first { $0.transactionID == former.explanation.decidedBy }?.cause
    let isRunning = (former.accessUntil ?? former.expiresAt).map { event.at < $0 } ?? true
    if cause == nil || cause == .otherSubscription, isRunning { return [] }
    let isRefund = cause == .cancelled
    guard isRefund || !lost(former.tier, event).isEmpty else { return [] }
    return [expiration(event, of: former, isRefund: isRefund)]
  }

  /// The end of a former verdict's access, with an ID of its own.
  private func expiration(_ event: ChangeEvent, of former: Entitlement, isRefund: Bool) -> WebhookMessage {
    message(event, "EXPIRATION", id: "\(event.id)_ended") { json in
      addUser(of: event, to: &json)
      json.member("product_id", former.productID?.rawValue)
      Self.write(lost(former.tier, event), to: &json)
      json.member("period_type", former.isTrial ? "TRIAL" : "NORMAL")
      json.member("purchased_at_ms", raw: "null")
      json.member("expiration_at_ms", min(former.expiresAt ?? event.at, event.at).millisecondsSince1970)
      Self.writePurchase(of: former, else: nil, to: &json)
      Self.writeMoney(event.detail.takenBack, isRefund ? .subscriptionRefunded : .subscriptionExpired, to: &json)
      json.member("expiration_reason", isRefund ? "CUSTOMER_SUPPORT" : "UNKNOWN")
    }
  }

  private static func writePurchase(of verdict: Entitlement, else former: Entitlement?, to json: inout JSONWriter) {
    let id = verdict.originalTransactionID ?? former?.originalTransactionID
    json.member("store", (id?.store ?? "app_store").uppercased())
    json.member("environment", (verdict.environment ?? former?.environment ?? .production).rawValue.uppercased())
    json.member("transaction_id", (verdict.explanation.decidedBy ?? former?.explanation.decidedBy)?.rawValue)
    let original = id?.rawValue
    json.member(
      "original_transaction_id", original.map { id?.store == nil ? $0 : String($0.drop { $0 != ":" }.dropFirst()) })
    json.member("is_family_share", verdict.ownership == .familyShared)
  }

  private func purchase(_ event: ChangeEvent, _ type: EventType, _ verdict: Entitlement) -> WebhookMessage {
    let former = event.formerVerdict
    let isReturn = former?.originalTransactionID == verdict.originalTransactionID && former?.productID != nil
    let name = Self.name(of: type, verdict, isReturn: isReturn)
    return message(event, name) { json in
      addUser(of: event, to: &json)
      json.member("product_id", (verdict.productID ?? former?.productID)?.rawValue)
      // The former verdict says which access ended.
      let given = verdict.givesAccess
      Self.write(
        given ? scope.entitlements(of: verdict.tier, in: catalog) : lost(former?.tier ?? verdict.tier, event), to: &json
      )
      let isIntroductory = event.sale?.offerType == 1
      json.member("period_type", verdict.isTrial ? "TRIAL" : isIntroductory ? "INTRO" : "NORMAL")
      json.member("purchased_at_ms", event.purchasedAt?.millisecondsSince1970)
      // A purchase for life has no end.
      let end = given ? verdict.expiresAt : verdict.expiresAt ?? former?.expiresAt
      json.member("expiration_at_ms", end?.millisecondsSince1970)
      Self.writePurchase(of: verdict, else: former, to: &json)
      Self.writeMoney(event.sale, type, isTold: event.detail.isTold ?? false, to: &json)
      switch type {
      case .trialConverted: json.member("is_trial_conversion", true)
      case .subscriptionRenewed, .productChanged: json.member("is_trial_conversion", false)
      case .renewalOff: json.member("cancel_reason", "UNSUBSCRIBE")
      case .subscriptionRefunded: json.member("expiration_reason", "CUSTOMER_SUPPORT")
      case .billingIssue: json.member("grace_period_expiration_at_ms", verdict.accessUntil?.millisecondsSince1970)
      case .subscriptionExpired, .graceEnded, .trialExpired:
        json.member("expiration_reason", Self.expirationReason(verdict.reason))
      default: break
      }
    }
  }

  private static func writeMoney(
    _ sale: Purchase.Sale?, _ type: EventType, isTold: Bool = false, to json: inout JSONWriter
  ) {
    let amount: Int64? =
      switch type {
      case _ where isTold: 0
      case .subscriptionStarted, .subscriptionRenewed, .productChanged, .trialStarted, .trialConverted: sale?.price
      case .subscriptionRefunded: sale?.price.map { -(sale?.refund(of: $0) ?? $0) }
      default: 0
      }
    let text = amount.map { Price(milliunits: $0).text } ?? "null"
    json.member("price", raw: amount == 0 || sale?.currency == "USD" ? text : "null")
    json.member("price_in_purchased_currency", raw: text)
    json.member("currency", sale?.currency)
    // Apple has three letters.
    json.member("country_code", sale?.storefront.flatMap { $0.utf8.count == 2 ? $0 : nil })
    json.member("offer_code", sale?.offerType == 3 ? sale?.offerID : nil)
    json.member("presented_offering_id", raw: "null")
    json.member("tax_percentage", raw: "null")
    json.member("commission_percentage", raw: "null")
  }

  private static func name(of type: EventType, _ verdict: Entitlement, isReturn: Bool) -> String {
    switch type {
    case .subscriptionStarted, .trialStarted, .productChanged, .subscriptionTransferred:
      verdict.reason == .lifetime || verdict.reason == .originalPurchase
        ? "NON_RENEWING_PURCHASE" : isReturn ? "RENEWAL" : "INITIAL_PURCHASE"
    case .trialConverted: isReturn ? "RENEWAL" : "INITIAL_PURCHASE"
    case .subscriptionRenewed: "RENEWAL"
    case .renewalOff: "CANCELLATION"
    case .renewalOn: "UNCANCELLATION"
    case .billingIssue: "BILLING_ISSUE"
    default: "EXPIRATION"
    }
  }

  private static func expirationReason(_ reason: EntitlementReason) -> String {
    switch reason {
    case .voluntary: "UNSUBSCRIBE"
    case .billingError, .billingGrace, .billingRetry: "BILLING_ERROR"
    case .priceIncrease: "PRICE_INCREASE"
    default: "UNKNOWN"
    }
  }
}
