package import Entitlements
package import struct FoundationEssentials.Date

/// A verified notification, ready to be stored.
package struct NotificationEntry: Sendable {
  /// Apple's `notificationUUID`, or a name derived from the payload if it has none.
  package var uuid: String
  package var type: String?
  package var subtype: String?
  package var environment: StoreEnvironment?
  package var bundleID: BundleID?
  package var signedAt: Date?
  /// Our own clock, for the record only.
  package var receivedAt: Date
  /// The payload as received, without secrets. A payload larger than `payloadLimit` is not stored.
  package var payload: String
  /// Its evidence by subscription; empty if it concerns no purchase.
  package var evidence: [SubscriptionEvidence]
  /// Its signed transaction, which is stored with a purchase in place of a receipt.
  package var proof: KeptReceipt?
  /// The user named by the purchase, if the ID can be a user's.
  package var claimant: UserID?
  /// Whether an unknown claimant is created as a user.
  package var makesClaimant: Bool
  /// The evaluation time.
  package var evaluatedAt: Date
  package var rules: any VerdictRules
  /// The fields of the notification, for an event of its own; `nil` for one that the service acts on.
  package var notice: StoreNotice?
  /// Apple's request in a `CONSUMPTION_REQUEST`.
  package var consumption: ConsumptionRequest?
  /// Whether Apple extended the renewal date of its purchase, or could not.
  package var hasExtended: Bool?
  /// Whether it is forwarded as it came.
  package var isForwarded = false
  /// Until when the app's rows are claimed for the caller: see `LedgerEntry`.
  package var rowsClaimedUntil: Date?

  package static let payloadLimit = 256 * 1024

  package init(
    uuid: String, type: String? = nil, subtype: String? = nil, environment: StoreEnvironment? = nil,
    bundleID: BundleID? = nil, signedAt: Date? = nil, receivedAt: Date, payload: String,
    evidence: [SubscriptionEvidence] = [], proof: KeptReceipt? = nil, claimant: UserID? = nil,
    makesClaimant: Bool = false, evaluatedAt: Date, rules: any VerdictRules, rowsClaimedUntil: Date? = nil
  ) {
    self.uuid = uuid
    self.type = type
    self.subtype = subtype
    self.environment = environment
    self.bundleID = bundleID
    self.signedAt = signedAt
    self.receivedAt = receivedAt
    self.payload = payload
    self.evidence = evidence
    self.proof = proof
    self.claimant = claimant
    self.makesClaimant = makesClaimant
    self.evaluatedAt = evaluatedAt
    self.rules = rules
    self.rowsClaimedUntil = rowsClaimedUntil
  }
}

/// The outcome of a notification.
package enum NotificationOutcome: Sendable {
  /// The notification was processed before. Nothing was written.
  case duplicate
  /// Merged with the evidence of an owned purchase, or claimed for the user whom the purchase names.
  case recorded(user: UserID, Recorded)
  /// The purchase is unowned: its evidence is stored until a user claims it.
  case unclaimed
  /// The notification concerns no purchase.
  case noted
}

/// A notification that failed verification, or could not be read.
package struct RefusedNotification: Hashable, Sendable {
  /// The reason, as a constant text.
  package var problem: String
  /// The payload as received, without secrets, truncated to `payloadLimit`.
  package var payload: String
  /// Whether Apple or RevenueCat is proven to have sent it: then it is for another app, or cannot be read.
  package var isSigned: Bool
  package var receivedAt: Date

  /// The most stored per kind (signed or not): the newest.
  package static let limit = 1_000
  package static let payloadLimit = 16 * 1024

  package init(problem: String, payload: String, isSigned: Bool = false, receivedAt: Date) {
    self.problem = problem
    self.payload = payload
    self.isSigned = isSigned
    self.receivedAt = receivedAt
  }
}

/// A stored notification, as support sees it.
package struct NotificationLine: Hashable, Sendable {
  /// The consequence of a notification.
  package enum Outcome: String, Hashable, Sendable, CaseIterable {
    case recorded
    case unclaimed
    case noted
  }

  package var uuid: String
  package var type: String?
  package var subtype: String?
  package var signedAt: Date?
  package var receivedAt: Date
  package var outcome: Outcome
  /// The user whose verdict it changed.
  package var user: UserID?
}
