package import Entitlements
package import struct FoundationEssentials.Date

/// A notification whose signatures were verified, ready to be taken.
package struct NotificationEntry: Sendable {
  /// Apple's `notificationUUID`, or a name made of the payload where it has none.
  package var uuid: String
  package var type: String?
  package var subtype: String?
  package var environment: StoreEnvironment?
  package var bundleID: BundleID?
  package var signedAt: Date?
  /// Our own clock, for the record only.
  package var receivedAt: Date
  /// As it came, without secrets. One that is larger than `payloadLimit` is not kept.
  package var payload: String
  /// What its parts tell, by subscription; empty where it tells of no purchase.
  package var evidence: [SubscriptionEvidence]
  /// The signed transaction in it: what is kept of a purchase in place of a receipt.
  package var proof: KeptReceipt?
  /// The user whom the purchase names, where there may be such a user.
  package var claimant: UserID?
  /// Whether the claimant is a user though nothing is known of them.
  package var makesClaimant: Bool
  /// The moment to judge at.
  package var evaluatedAt: Date
  package var evaluate: Evaluator
  package var nextCheck: NextCheck
  /// Until when the app's rows are left to the caller: see `LedgerEntry`.
  package var rowsClaimedUntil: Date?

  package static let payloadLimit = 256 * 1024

  package init(
    uuid: String, type: String? = nil, subtype: String? = nil, environment: StoreEnvironment? = nil,
    bundleID: BundleID? = nil, signedAt: Date? = nil, receivedAt: Date, payload: String,
    evidence: [SubscriptionEvidence] = [], proof: KeptReceipt? = nil, claimant: UserID? = nil,
    makesClaimant: Bool = false, evaluatedAt: Date,
    evaluate: @escaping Evaluator, nextCheck: @escaping NextCheck = { _, _ in nil }, rowsClaimedUntil: Date? = nil
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
    self.evaluate = evaluate
    self.nextCheck = nextCheck
    self.rowsClaimedUntil = rowsClaimedUntil
  }
}

/// What became of a notification.
package enum NotificationOutcome: Sendable {
  /// It was taken before. Nothing was written.
  case duplicate
  /// Merged with what is known of its owner's purchase, or claimed for the user whom it names.
  case recorded(user: UserID, Recorded)
  /// Nobody has claimed the purchase: kept until somebody does.
  case unclaimed
  /// It tells of no purchase.
  case noted
}

/// A notification that was not believed, or could not be read.
package struct RefusedNotification: Hashable, Sendable {
  /// Why, as a constant text.
  package var problem: String
  /// As it came, without secrets; what is beyond `payloadLimit` is cut off.
  package var payload: String
  /// Whether Apple signed it: then it is another app's.
  package var isSigned: Bool
  package var receivedAt: Date

  /// How many of a kind are kept, signed or not: the newest.
  package static let limit = 1_000
  package static let payloadLimit = 16 * 1024

  package init(problem: String, payload: String, isSigned: Bool = false, receivedAt: Date) {
    self.problem = problem
    self.payload = payload
    self.isSigned = isSigned
    self.receivedAt = receivedAt
  }
}

/// A notification that was taken, as support reads of it.
package struct NotificationLine: Hashable, Sendable {
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
  /// Whose verdict it went into.
  package var user: UserID?
}
