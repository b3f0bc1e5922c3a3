import Access
import Entitlements
import JSON
package import Ledger

import struct FoundationEssentials.Date

/// An event as others read it, in `GET /v1/events` and in webhooks:
///
///     {"id":"evt_1768478400000_42","type":"subscription.renewed","timestamp":"2026-01-15T12:00:00Z","user_id":"…",
///      "data":{"tier":"pro",…,"previous":{"tier":"pro",…}}}
///
/// `type`, `timestamp` and `data` are those of Standard Webhooks, section "Payload structure".
package enum EventDocument {
  package static func json(of event: ChangeEvent) -> [UInt8] {
    JSONWriter.object { json in
      json.member("id", event.id)
      json.member("type", event.type)
      json.member("timestamp", event.at.rfc3339)
      json.member("user_id", event.user == .nobody ? nil : event.user.rawValue)
      json.member("reported_id", ifPresent: event.detail.reportedID)
      if let type = EventType(rawValue: event.type) {
        json.object("data") { writeData(of: event, type, to: &$0) }
      } else {
        json.member("data", raw: event.detail.properties ?? "{}")
      }
    }
  }

  private static func writeData(of event: ChangeEvent, _ type: EventType, to json: inout JSONWriter) {
    let detail = event.detail
    switch type {
    case .grantStarted, .grantEnded: write(detail, to: &json)
    case .trialStarted where detail.trial != nil, .trialExpired where detail.trial != nil:
      json.member("trial", detail.trial)
      json.member("device_id", detail.device)
      write(detail, to: &json)
    case .trialRefused:
      json.member("trial", detail.trial)
      json.member("device_id", detail.device)
      json.member("refused_by", detail.refusedBy)
    case .limitReached:
      json.member("feature", detail.feature)
      json.member("tier", detail.tier?.rawValue)
      json.member("current", detail.current.map { Int64($0) })
      json.member("limit", detail.limit.map { Int64($0) })
      json.member("resets_at", detail.resetsAt?.rfc3339)
    case .subscriptionTransferred:
      json.member("from", detail.from?.shown)
      json.member("to", detail.to?.shown)
      json.member("original_transaction_id", detail.purchase?.originalTransactionID.rawValue)
      json.member("environment", detail.purchase?.environment.rawValue)
      json.member("tier", event.entitlement?.tier.rawValue)
      json.member("status", event.entitlement?.status.rawValue)
    case .priceIncrease, .priceChange, .consumptionRequest, .refundDeclined, .renewalExtended, .renewalExtension,
      .metadataUpdate, .migration, .externalPurchaseToken, .consentRescinded, .otherNotification:
      if let notice = detail.notice { write(notice, to: &json) }
    case .subscriptionStarted, .subscriptionRenewed, .renewalOff, .renewalOn, .billingIssue, .graceEnded,
      .subscriptionExpired, .subscriptionRefunded, .productChanged, .trialStarted, .trialConverted, .trialExpired:
      if let verdict = event.verdict { write(verdict, to: &json) }
      write(event.sale, isRefund: type == .subscriptionRefunded, to: &json)
      if let former = event.formerVerdict {
        json.object("previous") { write(former, to: &$0) }
      } else {
        json.member("previous", raw: "null")
      }
    }
  }

  /// The fields of a notification, under Apple's names in our spelling; a field that it lacks is left out.
  private static func write(_ notice: StoreNotice, to json: inout JSONWriter) {
    json.member("notification_uuid", notice.uuid)
    json.member("notification_type", notice.type)
    json.member("subtype", ifPresent: notice.subtype)
    json.member("environment", ifPresent: notice.environment)
    json.member("bundle_id", ifPresent: notice.bundleID)
    json.member("signed_at", ifPresent: notice.signedAt?.rfc3339)
    json.member("product_id", ifPresent: notice.productID)
    json.member("transaction_id", ifPresent: notice.transactionID)
    json.member("original_transaction_id", ifPresent: notice.originalTransactionID)
    json.member("previous_original_transaction_id", ifPresent: notice.previousOriginalTransactionID)
    json.member("consumption_request_reason", ifPresent: notice.consumptionRequestReason)
    json.member("price_increase_status", ifPresent: notice.priceIncreaseStatus.map { Int64($0) })
    json.member("expires_at", ifPresent: notice.expiresAt?.rfc3339)
    json.member("app_transaction_id", ifPresent: notice.appTransactionID)
    json.member("external_purchase_id", ifPresent: notice.externalPurchaseID)
    json.member("token_type", ifPresent: notice.tokenType)
    json.member("token_created_at", ifPresent: notice.tokenCreatedAt?.rfc3339)
    json.member("token_expires_at", ifPresent: notice.tokenExpiresAt?.rfc3339)
    json.member("request_id", ifPresent: notice.requestID)
    if let storefronts = notice.storefronts {
      json.array("storefronts") { array in for one in storefronts { array.value(one) } }
    }
    json.member("succeeded", ifPresent: notice.succeeded)
    json.member("failed", ifPresent: notice.failed)
  }

  private static func write(_ detail: ChangeEvent.Detail, to json: inout JSONWriter) {
    let given = detail.given
    json.member("grant_id", given.map { String($0.id) })
    json.member("kind", given?.kind.rawValue)
    json.member("tier", given?.tier.rawValue)
    json.member("starts_at", given?.startsAt.rfc3339)
    json.member("ends_at", given?.endsAt.rfc3339)
    json.member("ended_at", detail.endedAt?.rfc3339)
  }

  /// The price of the transaction, as the store reports it, and its offer.
  private static func write(_ sale: Purchase.Sale?, isRefund: Bool, to json: inout JSONWriter) {
    let price = sale?.price
    json.member("price", price.map { Price(milliunits: $0).text })
    if isRefund { json.member("refund", price.map { Price(milliunits: sale?.refund(of: $0) ?? $0).text }) }
    json.member("currency", sale?.currency)
    json.member("country", sale?.storefront)
    json.member("offer_type", sale?.offerName)
    json.member("offer_id", sale?.offerID)
    json.member("transaction_reason", sale?.terms?.reason)
    if isRefund { json.member("revocation_type", sale?.terms?.revocationType) }
  }

  /// The members of a verdict, under the names of `GET /v1/profiles/{user_id}`.
  private static func write(_ verdict: Entitlement, to json: inout JSONWriter) {
    json.member("tier", verdict.tier.rawValue)
    json.member("status", verdict.status.rawValue)
    json.member("reason", verdict.reason.rawValue)
    json.member("expires_at", verdict.expiresAt?.rfc3339)
    json.member("access_until", verdict.accessUntil?.rfc3339)
    json.member("commitment_expires_at", verdict.commitmentExpiresAt?.rfc3339)
    json.member("product_id", verdict.productID?.rawValue)
    json.member("transaction_id", verdict.explanation.decidedBy?.rawValue)
    json.member("original_transaction_id", verdict.originalTransactionID?.rawValue)
    json.member("environment", verdict.environment?.rawValue)
    json.member("will_renew", verdict.willRenew)
    json.member("is_trial", verdict.isTrial)
    json.member("ownership", verdict.ownership?.rawValue)
    json.member("source", verdict.source?.rawValue)
    json.member("provisional", verdict.isProvisional)
  }
}
