/// The operator's settings that affect a verdict.
package struct EntitlementPolicy: Hashable, Sendable {
  /// How long a subscription in billing retry keeps its tier if Apple gave no grace date; zero for not at all.
  package var billingRetryAccess: Duration
  /// How long past its end a proven state stands without newer evidence.
  package var outageHold: Duration
  /// How long past its end a subscription stands that Apple shows neither renewed nor ended; zero for not at all.
  package var lateRenewal: Duration
  /// How long a provisional grant may last. Used only in explanations: evidence carries its own `provisionalUntil`.
  package var provisional: Duration

  /// How long a grace period without a date stands after Apple's last word about it.
  static let undatedGrace: Duration = .seconds(86_400)
  /// Apple's longest grace period.
  ///
  /// https://developer.apple.com/help/app-store-connect/manage-subscriptions/enable-billing-grace-period-for-auto-renewable-subscriptions
  package static let longestGrace: Duration = .seconds(28 * 86_400)
  /// The longest period of Apple's own billing retries.
  package static let appleBillingRetryWindow: Duration = .seconds(60 * 86_400)

  package init(
    billingRetryAccess: Duration = appleBillingRetryWindow, outageHold: Duration = .seconds(7 * 86_400),
    lateRenewal: Duration = .seconds(86_400), provisional: Duration = .seconds(86_400)
  ) {
    self.billingRetryAccess = billingRetryAccess
    self.outageHold = outageHold
    self.lateRenewal = lateRenewal
    self.provisional = provisional
  }
}
