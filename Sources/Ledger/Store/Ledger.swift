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
  ///   - evaluationContext: how the user is judged with it.
  func postpone(
    _ receipt: PendingReceipt, provisional: [SubscriptionEvidence], _ evaluationContext: EvaluationContext
  ) async throws(LedgerError) -> PostponeOutcome

  /// The receipts that wait and are due, the longest waiting first.
  func pendingReceipts(dueAt now: Date, limit: Int) async throws(LedgerError) -> [PendingReceipt]

  /// Apple was asked in vain again: counts the attempt and sets when the next one is due.
  func retryPending(_ id: Int64, at due: Date) async throws(LedgerError)

  /// Apple answers again: what was put back while it did not is due now.
  func makePendingDue(at now: Date) async throws(LedgerError)

  /// There is a verdict: the receipt waits no longer, and what was granted on its signature ends; the user is judged anew.
  func settlePending(_ id: Int64, _ evaluationContext: EvaluationContext) async throws(LedgerError)

  /// Ends the provisional grants whose time is over, and judges their users anew.
  /// - Returns: how many grants ended.
  func endProvisional(_ evaluationContext: EvaluationContext) async throws(LedgerError) -> Int

  /// Judges a user anew where the rules have changed since the verdict, and nothing else will.
  /// - Parameters:
  ///   - base64: the receipt that this came up with, for the history.
  ///   - admits: asked before the verdict takes the place of the one before.
  /// - Returns: whether it was admitted, or is the same.
  func reevaluate(
    _ user: UserID, receipt base64: String, requestID: String, _ evaluationContext: EvaluationContext,
    approves: @escaping Approval
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
