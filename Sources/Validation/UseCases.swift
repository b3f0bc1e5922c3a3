package import Access
package import AppStore
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
  package let history: NotificationHistory
  /// `nil` without a key of the Server API.
  package let notificationTest: NotificationTest?
  /// `nil`: nothing proves who sends its events.
  package let revenueCat: RevenueCatReceiver?
  package let reader: StandingReader
  package let usage: FeatureUsage
  package let trials: Trials
  package let offers: SubscriptionOffers
  package let grants: AccessGrants
  package let erasure: UserErasure
  package let lookUp: SupportLookUp
  package let revalidation: UserRevalidation
  package let extensions: RenewalExtensions
  package let transfer: PurchaseTransfer
  package let refunds: RefundHistory
  package let brake: DowngradeBrakeService
  package let review: RulesReview
  package let progress = RunProgress()

  package var plans: Plans { usage.plans }
  package var now: @Sendable () -> Date { { [clock] in clock.now } }

  /// - Parameters:
  ///   - offerSigner: `nil` where no key signs offers.
  ///   - isOurPassword: whether the password of a notification of version 1 is our shared secret, in constant time.
  ///   - forwardsNotifications: whether somebody gets Apple's notifications as they came.
  ///   - onRefund: called with each refund that no notification has told.
  ///   - onExtension: called with the last state of each extension of renewal dates.
  ///   - revenueCat: `nil` where RevenueCat's webhooks are not taken.
  package init(
    validator: ReceiptValidator, plans: Plans, trials: Trials.Settings, offerSigner: OfferSigner?,
    brake: DowngradeBrakeService, review: RulesReview, clock: ServiceClock,
    isOurPassword: @escaping @Sendable (NotificationV1) -> Bool,
    forwardsNotifications: Bool,
    onNotification: @escaping @Sendable (_ version: Int, NotificationReceiver.Outcome) -> Void,
    onRefund: @escaping @Sendable (RefundHistory.Finder) -> Void,
    onExtension: @escaping @Sendable (ExtensionRecord) -> Void,
    revenueCat: (keyring: RevenueCatKeyring, onOutcome: @Sendable (RevenueCatReceiver.Outcome) -> Void)?
  ) {
    let (ledger, verdicts, gateway) = (validator.ledger, validator.verdicts, validator.gateway)
    self.ledger = ledger
    rules = verdicts.rules
    self.clock = clock
    self.validator = validator
    inspector = PurchaseInspector(validator: validator, ledger: ledger)
    notifications = NotificationReceiver(
      signedData: gateway.signedData, ledger: ledger, validator: validator, isOurPassword: isOurPassword,
      forwards: forwardsNotifications, onOutcome: onNotification, onExtensionEnd: onExtension)
    let apps = gateway.serverAPI == nil ? [] : gateway.apps.bundleIDs
    history = NotificationHistory(
      sources: apps.flatMap { app in
        [.production, .sandbox].map { NotificationHistory.Source(bundleID: app, environment: $0) }
      }, ledger: ledger)
    notificationTest = gateway.serverAPI.map { NotificationTest(client: $0, bundleIDs: apps) }
    self.revenueCat = revenueCat.map {
      RevenueCatReceiver(
        keyring: $0.keyring, ledger: ledger, validator: validator, terms: plans.terms, onOutcome: $0.onOutcome)
    }
    reader = StandingReader(ledger: ledger, rules: rules, hasProfileStore: verdicts.writeBack != nil)
    usage = FeatureUsage(plans: plans, reader: reader)
    self.trials = Trials(settings: trials, verdicts: verdicts, ledger: ledger)
    offers = SubscriptionOffers(
      ledger: ledger, rules: rules, plans: plans, signer: offerSigner, apps: gateway.apps.bundleIDs)
    grants = AccessGrants(verdicts: verdicts, ledger: ledger)
    erasure = UserErasure(verdicts: verdicts, ledger: ledger)
    lookUp = SupportLookUp(
      ledger: ledger, serverAPI: gateway.serverAPI, appStoreHealth: gateway.appStoreHealth,
      bundleIDs: gateway.apps.bundleIDs, deadline: gateway.deadline)
    revalidation = UserRevalidation(validator: validator, ledger: ledger)
    extensions = RenewalExtensions(
      validator: validator, ledger: ledger, revalidation: revalidation, onClosed: onExtension)
    transfer = PurchaseTransfer(validator: validator, ledger: ledger)
    refunds = RefundHistory(validator: validator, ledger: ledger, onFound: onRefund)
    self.brake = brake
    self.review = review
  }
}
