package import Access
package import Entitlements
package import Ledger

package import struct FoundationEssentials.Date

/// The use cases of the service, made once: its routes and its jobs call the same ones.
package struct UseCases: Sendable {
  package let ledger: Ledger
  package let rules: EntitlementRules
  package let clock: ServiceClock
  package let validator: ReceiptValidator
  package let inspector: PurchaseInspector
  package let notifications: NotificationReceiver
  /// `nil`: nothing proves who sends its events.
  package let revenueCat: RevenueCatReceiver?
  package let reader: StandingReader
  package let usage: FeatureUsage
  package let trials: Trials
  package let grants: AccessGrants
  package let erasure: UserErasure
  package let lookUp: SupportLookUp
  package let revalidation: UserRevalidation
  package let transfer: PurchaseTransfer
  package let brake: DowngradeBrakeService
  package let review: RulesReview
  package let progress = RunProgress()

  package var plans: Plans { usage.plans }
  package var now: @Sendable () -> Date { { [clock] in clock.now } }

  package init(
    validator: ReceiptValidator, notifications: NotificationReceiver, revenueCat: RevenueCatReceiver?,
    lookUp: SupportLookUp, plans: Plans, trials: Trials.Settings, brake: DowngradeBrakeService, review: RulesReview,
    clock: ServiceClock
  ) {
    let (ledger, verdicts) = (validator.ledger, validator.verdicts)
    self.ledger = ledger
    rules = verdicts.rules
    self.clock = clock
    self.validator = validator
    inspector = PurchaseInspector(validator: validator, ledger: ledger)
    self.notifications = notifications
    self.revenueCat = revenueCat
    reader = StandingReader(ledger: ledger, rules: rules, hasProfileStore: verdicts.writeBack != nil)
    usage = FeatureUsage(plans: plans, reader: reader)
    self.trials = Trials(trials, verdicts: verdicts, ledger: ledger)
    grants = AccessGrants(verdicts: verdicts, ledger: ledger)
    erasure = UserErasure(verdicts: verdicts, ledger: ledger)
    self.lookUp = lookUp
    revalidation = UserRevalidation(validator: validator, ledger: ledger)
    transfer = PurchaseTransfer(validator: validator, ledger: ledger)
    self.brake = brake
    self.review = review
  }
}
