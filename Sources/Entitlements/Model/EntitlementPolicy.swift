/// The choices an operator makes that bear on a verdict.
package struct EntitlementPolicy: Hashable, Sendable {
  /// How long a subscription in billing retry keeps its tier where Apple gave no grace date; zero keeps it not at all.
  package var billingRetryAccess: Duration
  /// How long past its end a proven state stands while no fresher answer is at hand.
  package var outageHold: Duration
  /// How long a provisional grant may last. Here it only explains: evidence carries its own `provisionalUntil`.
  package var provisional: Duration

  /// The longest that Apple itself retries a payment.
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
