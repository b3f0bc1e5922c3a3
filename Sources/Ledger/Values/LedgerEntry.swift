package import Entitlements
package import struct FoundationEssentials.Date

/// Who keeps a purchase that a second user presents (`policy.ownership`).
package enum OwnershipPolicy: String, Hashable, Sendable, CaseIterable {
  /// The first user keeps it; the second is refused.
  case keep
  /// It goes to whoever presented it last.
  case transfer
  /// It goes to the second user if it granted the first nothing, as the ledger knew it before this answer.
  case transferIfInactive = "transfer_if_inactive"
}

/// Judges a user over all their evidence at a moment. Pure; it runs inside the ledger's transaction.
package typealias Evaluator = @Sendable (_ user: UserID, _ evidence: [SubscriptionEvidence], _ now: Date) -> Entitlement

/// When a subscription has to be asked about again, as known at a moment; `nil` for never. Pure.
package typealias NextCheck = @Sendable (_ evidence: SubscriptionEvidence, _ now: Date) -> Date?

/// Whether a verdict may take the place of the one before, `nil` for a user never seen.
///
/// It may count what it is asked: of one change it is asked once, also where the transaction is made again.
package typealias Approval = @Sendable (_ before: Entitlement?, _ after: Entitlement) -> Bool

/// One answer of Apple's, ready to be recorded.
package struct LedgerEntry: Sendable {
  package var user: UserID
  /// Apple's answer, by subscription. May be empty: a receipt without purchases.
  package var evidence: [SubscriptionEvidence]
  /// The keys that bear on ownership: those with a product of the catalog, or all where there are none.
  package var contestedKeys: Set<SubscriptionKey>
  /// The keys whose purchase was made for another user, as the app said: this user does not get them.
  package var keysNamingOthers: Set<SubscriptionKey> = []
  package var receipt: KeptReceipt
  /// A purchase that has a receipt kept already keeps that one, as this one is nothing to ask verifyReceipt with. A purchase
  /// without one takes the entry's.
  package var keepsReceipts = false
  /// The user presented proof. Not so where the service asked Apple of itself, or Apple told it: then a purchase that is
  /// the user's by its name alone stays so.
  package var isPresented = true
  package var ownership: OwnershipPolicy
  /// The moment to judge at.
  package var evaluatedAt: Date
  /// Our own clock, for the record only: nothing is decided by it.
  package var recordedAt: Date
  /// Names the request in the history.
  package var requestID: String
  package var evaluate: Evaluator
  /// When a subscription has to be asked about again.
  package var nextCheck: NextCheck
  /// Asked before a verdict takes the place of another; `false` keeps everything as it is.
  package var approves: Approval
  /// The receipt that waited and is settled by this; `nil` for one that a caller brings.
  package var pendingID: Int64?
  /// The subscription of a run that is settled with this.
  package var runItem: RunItem?
  /// What a person said who had Apple asked.
  package var note: NoteID?
  /// Until when the app's rows are left to the caller, who writes those of users who lost a purchase first. `nil`: whoever
  /// claims updates gets them at once.
  package var rowsClaimedUntil: Date?

  package init(
    user: UserID, evidence: [SubscriptionEvidence], contestedKeys: Set<SubscriptionKey>, receipt: KeptReceipt,
    ownership: OwnershipPolicy, evaluatedAt: Date, recordedAt: Date, requestID: String, evaluate: @escaping Evaluator,
    nextCheck: @escaping NextCheck = { _, _ in nil }, approves: @escaping Approval = { _, _ in true }
  ) {
    self.user = user
    self.evidence = evidence
    self.contestedKeys = contestedKeys
    self.receipt = receipt
    self.ownership = ownership
    self.evaluatedAt = evaluatedAt
    self.recordedAt = recordedAt
    self.requestID = requestID
    self.evaluate = evaluate
    self.nextCheck = nextCheck
    self.approves = approves
  }
}

/// A receipt as it can be sent to Apple again.
package struct KeptReceipt: Hashable, Sendable {
  /// The standard base64 that Apple takes.
  package var base64: String
  package var environment: StoreEnvironment
  package var bundleID: BundleID
  /// The user whose purchase it proves, where that is settled; set by the ledger when it hands a receipt out.
  package var owner: UserID?
  /// The purchase named its owner, and nobody has presented it; set by the ledger when it is asked for a purchase.
  package var isOwnedByName = false

  package init(base64: String, environment: StoreEnvironment, bundleID: BundleID, owner: UserID? = nil) {
    self.base64 = base64
    self.environment = environment
    self.bundleID = bundleID
    self.owner = owner
  }
}

/// What is known of a receipt that was presented before.
package struct ReceiptKnowledge: Hashable, Sendable {
  /// Apple's answer to it was recorded for this user.
  package var wasEvaluated: Bool
  /// The user's subscriptions whose newest evidence came of it.
  package var proves: Set<SubscriptionKey>

  package init(wasEvaluated: Bool, proves: Set<SubscriptionKey>) {
    self.wasEvaluated = wasEvaluated
    self.proves = proves
  }
}

package enum RecordOutcome: Sendable {
  /// Recorded and durable.
  case recorded(Recorded)
  /// Every contested key belongs to another user, and the policy keeps it there, or was bought for one. Nothing was
  /// recorded.
  case ownedByAnotherUser
  /// The entry did not admit the verdict, or settles a receipt with a purchase that was granted on another one, which came
  /// first and waits as well. Nothing was recorded.
  case heldBack
}

package struct Recorded: Sendable {
  /// The verdict on the user after this answer.
  package var entitlement: Entitlement
  /// Whether it differs from the one before, its evidence time and explanation apart.
  package var changed: Bool
  /// Users who lost a purchase to this one, or a provisional grant on it: each judged anew and recorded.
  package var losers: [UserID]
  /// Keys of the answer left to other users while others were recorded.
  package var keptByOthers: Int
  /// How far the app's own row of the user has got.
  package var write: ProfileWriteState

  package init(
    entitlement: Entitlement, changed: Bool, losers: [UserID], keptByOthers: Int, write: ProfileWriteState
  ) {
    self.entitlement = entitlement
    self.changed = changed
    self.losers = losers
    self.keptByOthers = keptByOthers
    self.write = write
  }
}
