/// The operator's settings that affect a verdict.
package struct EntitlementPolicy: Hashable, Sendable {
  /// How long a subscription in billing retry keeps its tier if Apple gave no grace date; zero for not at all.
  package var billingRetryAccess: Duration
  /// How long past its end a proven state stands without newer evidence.
  package var outageHold: Duration
  /// How long a provisional grant may last. Used only in explanations: evidence carries its own `provisionalUntil`.
  package var provisional: Duration

  /// The longest period of Apple's own billing retries.
  package static let appleBillingRetryWindow: Duration = .seconds(60 * 86_400)

  package init(
    billingRetryAccess: Duration = appleBillingRetryWindow, outageHold: Duration = .seconds(7 * 86_400),
    provisional: Duration = .seconds(86_400)
  ) {
    self.billingRetryAccess = billingRetryAccess
    self.outageHold = outageHold
    self.provisional = provisional
  }
}
