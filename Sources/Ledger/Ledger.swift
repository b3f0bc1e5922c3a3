package import Entitlements
package import struct FoundationEssentials.Date

/// What the service must never forget.
///
/// Every operation is one transaction: it happened wholly, durably, or not at all. An operation that returned has
/// survived a power cut.
package protocol Ledger: RunLedger, NotificationLedger, ReevaluationLedger {
  /// Records what an answer of Apple's proved for a user, and judges the user anew over everything known of them.
  ///
  /// - Returns: the verdict as recorded, or that the purchase belongs to somebody else (nothing is recorded then).
  func record(_ entry: LedgerEntry) async throws(LedgerError) -> RecordOutcome

  /// Keeps a receipt until Apple can be asked about it. The same receipt of the same user is kept once.
  ///
  /// - Parameters:
  ///   - provisional: what the receipt's signature proves and may count meanwhile. A purchase that somebody else owns or
  ///     has a grant on, or of which something newer is known, is left out; a grant that exists is never prolonged. One
  ///     that ends at the moment at which it is judged counts for nothing and is reserved: nobody else is granted the
  ///     purchase while the receipt waits, and this user may be, later.
  ///   - rejudgement: how the user is judged with it.
  func postpone(
    _ receipt: PendingReceipt, provisional: [SubscriptionEvidence], _ rejudgement: Rejudgement
  ) async throws(LedgerError) -> PostponeOutcome

  /// The receipts that wait and are due, the longest waiting first.
  func pendingReceipts(dueAt now: Date, limit: Int) async throws(LedgerError) -> [PendingReceipt]

  /// Apple was asked in vain again: counts the attempt and sets when the next one is due.
  func retryPending(_ id: Int64, at due: Date) async throws(LedgerError)

  /// Apple answers again: what was put back while it did not is due now.
  func hastenPending(at now: Date) async throws(LedgerError)

  /// There is a verdict: the receipt waits no longer, and what was granted on its signature ends; the user is judged anew.
  func settlePending(_ id: Int64, _ rejudgement: Rejudgement) async throws(LedgerError)

  /// Ends the provisional grants whose time is over, and judges their users anew.
  /// - Returns: how many grants ended.
  func endProvisional(_ rejudgement: Rejudgement) async throws(LedgerError) -> Int

  /// Judges a user anew where the rules have changed since the verdict, and nothing else will.
  /// - Parameters:
  ///   - base64: the receipt that this came up with, for the history.
  ///   - admits: asked before the verdict takes the place of the one before.
  /// - Returns: whether it was admitted, or is the same.
  func judgeAnew(
    _ user: UserID, receipt base64: String, requestID: String, _ rejudgement: Rejudgement,
    admits: @escaping Admission
  ) async throws(LedgerError) -> Bool

  /// What the app's own row of a user waits for; `nil` when nothing does.
  func waitingUpdate(of user: UserID) async throws(LedgerError) -> WaitingUpdate?

  /// Claims the updates that are due, the longest waiting first. They are due again at `lease` if nothing comes of them.
  func claimUpdates(dueAt now: Date, until lease: Date, limit: Int) async throws(LedgerError) -> [WaitingUpdate]

  /// An update was written. One of a newer version goes on waiting.
  /// - Parameters:
  ///   - isDoubtful: an older write may be carried out after this one, though none is known to have failed that way.
  ///   - again: when to write the row once more where that may be; `nil` for a store that refuses what is older than the
  ///     row.
  func settleUpdate(
    of user: UserID, version: Int64, isDoubtful: Bool, confirmingAt again: Date?
  ) async throws(LedgerError)

  /// There is no row to update: counts that, and sets when to look again. A newer version goes on waiting.
  func missUpdate(of user: UserID, version: Int64, retryAt due: Date) async throws(LedgerError)

  /// An update was tried in vain: counts the attempt and sets when the next is due. One of a newer version stays as it is.
  /// - Parameters:
  ///   - problem: the store's code.
  ///   - isDoubtful: the write may still be carried out, even after one that comes later.
  func retryUpdate(
    of user: UserID, version: Int64, at due: Date, problem: String, isDoubtful: Bool
  ) async throws(LedgerError)

  /// The app's row has a version that no evidence can have: an update that was tried in vain goes on above it, and so does
  /// every later one. One of a newer version stays as it is.
  func raiseUpdate(of user: UserID, version: Int64, above floor: Int64) async throws(LedgerError)

  /// Gives claimed updates back of which nothing came: they are due at once.
  /// - Parameter lease: until when they were claimed. What somebody has settled or put off since stays so.
  func returnUpdates(of users: [UserID], claimedUntil lease: Date) async throws(LedgerError)

  /// Claims the subscriptions that are to be asked about again, the longest overdue first. Each claim puts the next one
  /// off, two minutes at first and up to a day; what `record` learns of the subscription replaces that.
  func claimRechecks(dueAt now: Date, limit: Int) async throws(LedgerError) -> [Recheck]

  /// The clock was ahead and has been put right: what was claimed or put off by it is due as if it never had been. What the
  /// ledger hands out meanwhile may be handed out twice.
  func releaseClaims() async throws(LedgerError)

  /// A few words that have to survive a restart, by name.
  func memo(_ name: String) async throws(LedgerError) -> String?
  func keepMemo(_ name: String, _ text: String?) async throws(LedgerError)

  /// What waits.
  func backlog(at now: Date) async throws(LedgerError) -> LedgerBacklog

  /// Everything known of a user's purchases and the verdict last recorded; `nil` for a user never seen.
  func profile(of user: UserID) async throws(LedgerError) -> LedgerProfile?

  /// What came of a receipt when it was presented for a user before.
  func knowledge(of receiptBase64: String, for user: UserID) async throws(LedgerError) -> ReceiptKnowledge

  /// The kept receipts that mention an original transaction ID: one per environment.
  func receipts(mentioning id: OriginalTransactionID) async throws(LedgerError) -> [KeptReceipt]

  /// The verdicts on a user, newest first.
  /// - Parameter before: the `sequence` to continue below; `nil` begins with the newest.
  func history(of user: UserID, before: Int64?, limit: Int) async throws(LedgerError) -> [HistoryEntry]

  /// Whether the ledger can be read and written now.
  func check() async throws(LedgerError)
}

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
package typealias Judge = @Sendable (_ user: UserID, _ evidence: [SubscriptionEvidence], _ now: Date) -> Entitlement

/// When a subscription has to be asked about again, as known at a moment; `nil` for never. Pure.
package typealias NextCheck = @Sendable (_ evidence: SubscriptionEvidence, _ now: Date) -> Date?

/// Whether a verdict may take the place of the one before, `nil` for a user never seen.
///
/// It may count what it is asked: of one change it is asked once, also where the transaction is made again.
package typealias Admission = @Sendable (_ before: Entitlement?, _ after: Entitlement) -> Bool

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
  package var judgedAt: Date
  /// Our own clock, for the record only: nothing is decided by it.
  package var recordedAt: Date
  /// Names the request in the history.
  package var requestID: String
  package var judge: Judge
  /// When a subscription has to be asked about again.
  package var nextCheck: NextCheck
  /// Asked before a verdict takes the place of another; `false` keeps everything as it is.
  package var admits: Admission
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
    ownership: OwnershipPolicy, judgedAt: Date, recordedAt: Date, requestID: String, judge: @escaping Judge,
    nextCheck: @escaping NextCheck = { _, _ in nil }, admits: @escaping Admission = { _, _ in true }
  ) {
    self.user = user
    self.evidence = evidence
    self.contestedKeys = contestedKeys
    self.receipt = receipt
    self.ownership = ownership
    self.judgedAt = judgedAt
    self.recordedAt = recordedAt
    self.requestID = requestID
    self.judge = judge
    self.nextCheck = nextCheck
    self.admits = admits
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
  package var wasJudged: Bool
  /// The user's subscriptions whose newest evidence came of it.
  package var proves: Set<SubscriptionKey>

  package init(wasJudged: Bool, proves: Set<SubscriptionKey>) {
    self.wasJudged = wasJudged
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

package struct LedgerProfile: Sendable {
  /// Also what is granted provisionally.
  package var evidence: [SubscriptionEvidence]
  /// The verdict last recorded.
  package var entitlement: Entitlement
  /// Grows by one with every recorded verdict on the user.
  package var version: Int64
  /// How far the app's own row of the user has got.
  package var write: ProfileWriteState

  package init(
    evidence: [SubscriptionEvidence], entitlement: Entitlement, version: Int64, write: ProfileWriteState
  ) {
    self.evidence = evidence
    self.entitlement = entitlement
    self.version = version
    self.write = write
  }
}

/// One line of a user's history.
package struct HistoryEntry: Sendable {
  package var sequence: Int64
  package var recordedAt: Date
  package var requestID: String
  package var entitlement: Entitlement
  package var changed: Bool

  package init(sequence: Int64, recordedAt: Date, requestID: String, entitlement: Entitlement, changed: Bool) {
    self.sequence = sequence
    self.recordedAt = recordedAt
    self.requestID = requestID
    self.entitlement = entitlement
    self.changed = changed
  }
}

/// Why an operation did not happen.
package enum LedgerError: Error, Hashable, Sendable {
  /// The disk is full or read-only, or the file is locked by another process. It may pass; nothing was recorded.
  case unavailable(String)
  /// The disk failed (SQLITE_IOERR) or the file is corrupt. The ledger takes no more writes: the process has to stop and
  /// recover from the write-ahead log at its next start, as a failed fsync can "succeed" the next time with the data gone.
  case failed(String)
  /// The ledger was closed.
  case closed
}
