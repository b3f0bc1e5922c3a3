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
}
