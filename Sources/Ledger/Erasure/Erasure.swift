package import Entitlements
package import struct FoundationEssentials.Date

/// A decision to erase a user (GDPR, article 17; for apps with accounts, App Review Guideline 5.1.1(v)).
package struct Erasure: Sendable {
  package var user: UserID
  /// The verdict on a user without anything, for the app's row; `nil`: the app has no rows.
  package var reset: Entitlement?
  /// For the verdict on what stays under the pseudonym.
  package var evaluationContext: EvaluationContext
  /// Until when the app's row is claimed for the caller: see `LedgerEntry`.
  package var rowsClaimedUntil: Date?

  package init(
    user: UserID, reset: Entitlement?, evaluationContext: EvaluationContext, rowsClaimedUntil: Date? = nil
  ) {
    self.user = user
    self.reset = reset
    self.evaluationContext = evaluationContext
    self.rowsClaimedUntil = rowsClaimedUntil
  }
}

/// The result of an erasure, in numbers of rows. An ID that was never seen and one that was erased before have the same
/// report: all zeros.
package struct ErasureReport: Hashable, Sendable {
  /// The user whom the ID meant: of an anonymous customer who has signed in since, that user.
  package var user: UserID
  /// Whether the app's row is to be reset. The outbox keeps the ID until it is.
  package var resetsRow = false
  /// Events of the history that stay, without the name.
  package var events = 0
  /// Notes whose text is gone.
  package var notes = 0
  /// Purchases, at whichever store, that stay under the pseudonym.
  package var purchases = 0
  /// Receipts and signed transactions that are gone.
  package var receipts = 0
  /// Receipts that waited for Apple, and are gone.
  package var waitingReceipts = 0
  /// Grants and the periods of trials, which have ended.
  package var grants = 0
  /// Trials, whose devices stay under the pseudonym.
  package var trials = 0
  /// Devices that are gone, or of which only the ID stays, as a trial was used there.
  package var devices = 0
  /// Consumptions, totals and the time zone, which are gone.
  package var usage = 0
  /// The IDs under which an SDK knew the customer, with the attributes: gone.
  package var customers = 0
  /// Events for others, delivered or not, which are gone.
  package var changeEvents = 0
  /// Notifications of Apple's and events of RevenueCat's whose text is gone.
  package var notifications = 0

  init(of user: UserID) { self.user = user }

  /// Adds what another step did.
  mutating func add(_ other: ErasureReport) {
    resetsRow = resetsRow || other.resetsRow
    events += other.events
    notes += other.notes
    purchases += other.purchases
    receipts += other.receipts
    waitingReceipts += other.waitingReceipts
    grants += other.grants
    trials += other.trials
    devices += other.devices
    usage += other.usage
    customers += other.customers
    notifications += other.notifications
    changeEvents += other.changeEvents
  }
}
