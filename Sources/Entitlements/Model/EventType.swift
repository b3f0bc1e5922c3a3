/// The types of events about users: each change is one event.
///
///     begins access     subscription.started, trial.started, trial.converted, grant.started
///     goes on           subscription.renewed, renewal_off, renewal_on, billing_issue, product_changed
///     ends access       subscription.expired, grace_ended, refunded, trial.expired, grant.ended
///     changes hands     subscription.transferred, to the user who had the purchase and to the one who has it
///     refuses           trial.refused, limit.reached
///
/// A free period is a trial, whether the App Store or the app gives it.
package enum EventType: String, Hashable, Sendable, CaseIterable {
  case subscriptionStarted = "subscription.started"
  case subscriptionRenewed = "subscription.renewed"
  case renewalOff = "subscription.renewal_off"
  case renewalOn = "subscription.renewal_on"
  case billingIssue = "subscription.billing_issue"
  case graceEnded = "subscription.grace_ended"
  case subscriptionExpired = "subscription.expired"
  case subscriptionRefunded = "subscription.refunded"
  case productChanged = "subscription.product_changed"
  case subscriptionTransferred = "subscription.transferred"
  case trialStarted = "trial.started"
  case trialConverted = "trial.converted"
  case trialExpired = "trial.expired"
  case trialRefused = "trial.refused"
  case grantStarted = "grant.started"
  case grantEnded = "grant.ended"
  case limitReached = "limit.reached"
  case priceIncrease = "apple.price_increase"
  case priceChange = "apple.price_change"
  case consumptionRequest = "apple.consumption_request"
  case refundDeclined = "apple.refund_declined"
  case renewalExtended = "apple.renewal_extended"
  case renewalExtension = "apple.renewal_extension"
  case metadataUpdate = "apple.metadata_update"
  case migration = "apple.migration"
  case externalPurchaseToken = "apple.external_purchase_token"
  case consentRescinded = "apple.rescind_consent"
  /// A notification of a type that this version does not know.
  case otherNotification = "apple.other"

  /// The type of an event that forwards a notification, and that no reader of events sees.
  package static let forwarded = "apple.notification"

  /// Whether it tells what Apple said, and no verdict.
  package var isOfApple: Bool { rawValue.hasPrefix("apple.") }

  /// The types of notifications whose whole effect is a verdict, and the test.
  private static let followed: Set<String> = [
    "SUBSCRIBED", "DID_CHANGE_RENEWAL_PREF", "DID_CHANGE_RENEWAL_STATUS", "OFFER_REDEEMED", "DID_RENEW", "EXPIRED",
    "DID_FAIL_TO_RENEW", "GRACE_PERIOD_EXPIRED", "REFUND", "REFUND_REVERSED", "REVOKE", "ONE_TIME_CHARGE", "TEST",
  ]

  /// The event of a notification that the service does not act on.
  ///
  /// - Parameter type: Apple's `notificationType`.
  /// - Returns: `nil` for one that it acts on.
  package init?(ofNotification type: String) {
    guard !Self.followed.contains(type) else { return nil }
    self = EventType(rawValue: "apple.\(type.lowercased())") ?? .otherNotification
  }
}
