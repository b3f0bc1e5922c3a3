package import Entitlements

/// The policy for answers to Apple's requests for consumption information (`app_store.consumption`).
package struct ConsumptionPolicy: Hashable, Sendable {
  /// The information about each customer whose transaction the app's backend has said nothing else about.
  package var information: ConsumptionInformation
  /// The time that the app's backend has to say something before the policy answers.
  package var wait: Duration

  package init(information: ConsumptionInformation = ConsumptionInformation(), wait: Duration = .zero) {
    self.information = information
    self.wait = wait
  }
}
