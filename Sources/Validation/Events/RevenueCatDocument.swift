import Access
import Entitlements
import JSON
import Ledger

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
///     transferred, to the new user              TRANSFER
///     grant.started, the app's own trial        NON_RENEWING_PURCHASE, store PROMOTIONAL
///     grant.ended, the end of that trial        EXPIRATION, store PROMOTIONAL
///
/// Each event is one message, so it is the one by which receivers end access or extend it: CANCELLATION ends none, and
/// PRODUCT_CHANGE announces what the next RENEWAL brings.
///
/// Other events have no counterpart, and are not sent. Members that only RevenueCat knows are `null`.
///
/// Prices add up, as RevenueCat's do: an event has the price where money comes, the negative of it where it goes back, and
/// zero where none moves. `price` is in US dollars, and `null` for another currency.
///
/// https://www.revenuecat.com/docs/integrations/webhooks/event-types-and-fields
struct RevenueCatDocument {
  /// The receiver's name of the app.
  var appID: String?
  /// The customer's, as they are now.
  var attributes: [String: CustomerAttribute] = [:]

  /// Whether events of a type have a counterpart; of `subscription.transferred` only that of the new user has one.
  static func mayHave(_ type: String) -> Bool {
    EventType(rawValue: type).map { ![.trialRefused, .limitReached].contains($0) && !$0.isOfApple } ?? false
  }

  /// - Returns: `nil` for an event without a counterpart.
  func json(of event: ChangeEvent) -> [UInt8]? {
    guard let type = EventType(rawValue: event.type) else { return nil }
    switch type {
    case .subscriptionTransferred:
      guard let from = event.detail.from, let to = event.detail.to, to == event.user else { return nil }
      return document(event, "TRANSFER") { json in
        json.array("transferred_from") { $0.value(from.shown) }
        json.array("transferred_to") { $0.value(to.shown) }
      }
    case .grantStarted, .grantEnded: return given(event, isStart: type == .grantStarted)
    case .trialStarted where event.detail.trial != nil: return given(event, isStart: true)
    case .trialExpired where event.detail.trial != nil: return given(event, isStart: false)
    case .trialRefused, .limitReached, .priceIncrease, .priceChange, .consumptionRequest, .refundDeclined,
      .renewalExtended, .renewalExtension, .metadataUpdate, .migration, .externalPurchaseToken, .consentRescinded,
      .otherNotification:
      return nil
    case .subscriptionStarted, .subscriptionRenewed, .renewalOff, .renewalOn, .billingIssue, .graceEnded,
      .subscriptionExpired, .subscriptionRefunded, .productChanged, .trialStarted, .trialConverted, .trialExpired:
      return event.verdict.map { purchase(event, type, $0) }
    }
  }

  private func document(
    _ event: ChangeEvent, _ type: String, _ addMembers: (inout JSONWriter) -> Void
  ) -> [UInt8] {
    JSONWriter.object { json in
      json.member("api_version", "1.0")
      json.object("event") { json in
        json.member("type", type)
        json.member("id", event.id)
        json.member("app_id", appID)
        json.member("event_timestamp_ms", event.at.millisecondsSince1970)
        addMembers(&json)
      }
    }
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

  private func given(_ event: ChangeEvent, isStart: Bool) -> [UInt8]? {
    guard let period = event.detail.given else { return nil }
    return document(event, isStart ? "NON_RENEWING_PURCHASE" : "EXPIRATION") { json in
      addUser(of: event, to: &json)
      json.member("product_id", "countersign_\(period.kind.rawValue)_\(period.tier)")
      json.array("entitlement_ids") { $0.value(period.tier.rawValue) }
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
  }

  private func purchase(_ event: ChangeEvent, _ type: EventType, _ verdict: Entitlement) -> [UInt8] {
    let former = event.formerVerdict
    // The former verdict says which access ended.
    let tier = verdict.givesAccess ? verdict.tier : former?.tier ?? verdict.tier
    let isReturn = former?.originalTransactionID == verdict.originalTransactionID && former?.productID != nil
    let name = Self.name(of: type, verdict, isReturn: isReturn)
    return document(event, name) { json in
      addUser(of: event, to: &json)
      json.member("product_id", (verdict.productID ?? former?.productID)?.rawValue)
      json.array("entitlement_ids") { $0.value(tier.rawValue) }
      let isIntroductory = event.sale?.offerType == 1
      json.member("period_type", verdict.isTrial ? "TRIAL" : isIntroductory ? "INTRO" : "NORMAL")
      json.member("purchased_at_ms", event.purchasedAt?.millisecondsSince1970)
      json.member("expiration_at_ms", (verdict.expiresAt ?? former?.expiresAt)?.millisecondsSince1970)
      let id = verdict.originalTransactionID ?? former?.originalTransactionID
      json.member("store", (id?.store ?? "app_store").uppercased())
      json.member("environment", (verdict.environment ?? former?.environment ?? .production).rawValue.uppercased())
      json.member("transaction_id", (verdict.explanation.decidedBy ?? former?.explanation.decidedBy)?.rawValue)
      let original = id?.rawValue
      json.member(
        "original_transaction_id", original.map { id?.store == nil ? $0 : String($0.drop { $0 != ":" }.dropFirst()) })
      json.member("is_family_share", verdict.ownership == .familyShared)
      Self.writeMoney(event.sale, type, to: &json)
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

  private static func writeMoney(_ sale: Purchase.Sale?, _ type: EventType, to json: inout JSONWriter) {
    let amount: Int64? =
      switch type {
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
    case .subscriptionStarted, .trialStarted, .productChanged:
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
