package import Entitlements
package import struct FoundationEssentials.Date

/// The durable store of purchases, verdicts and queues.
///
/// Every operation is one transaction: it happened completely and durably, or not at all. A completed operation
/// survives a power cut.
package protocol Ledger: RunLedger, NotificationLedger, ReevaluationLedger {
  /// Records the evidence of an answer from Apple for a user, and reevaluates the user over all evidence.
  ///
  /// - Returns: the verdict as recorded, or that the purchase belongs to another user (nothing is recorded then).
  func record(_ entry: LedgerEntry) async throws(LedgerError) -> RecordOutcome

  /// Queues a receipt until Apple can be asked about it. The same receipt of the same user is queued once.
  ///
  /// - Parameters:
  ///   - provisional: what the receipt's signature proves and may count meanwhile. A purchase with another owner, with
  ///     another user's grant or with newer evidence is left out; an existing grant is never prolonged. A grant that
  ///     ends at its evaluation time counts for nothing and is a reservation: no other user is granted the purchase
  ///     while the receipt is queued, and this user may be, later.
  ///   - evaluationContext: how the user is evaluated with the grant.
  func postpone(
    _ receipt: PendingReceipt, provisional: [SubscriptionEvidence], _ evaluationContext: EvaluationContext
  ) async throws(LedgerError) -> PostponeOutcome

  /// The queued receipts that are due, the longest waiting first.
  func pendingReceipts(dueAt now: Date, limit: Int) async throws(LedgerError) -> [PendingReceipt]

  /// Counts a failed attempt and schedules the next one.
  func retryPending(_ id: Int64, at due: Date) async throws(LedgerError)

  /// Ends the grants on the signature of a queued receipt that Apple rejects, and reevaluates the user. The receipt stays
  /// queued; the failed attempt is counted and the next one scheduled.
  func refusePending(
    _ id: Int64, retryAt due: Date, _ evaluationContext: EvaluationContext
  ) async throws(LedgerError)

  /// Makes receipts due now that were postponed during an outage of Apple's.
  func makePendingDue(at now: Date) async throws(LedgerError)

  /// Removes a queued receipt after its verdict, ends the grants on its signature, and reevaluates the user.
  func settlePending(_ id: Int64, _ evaluationContext: EvaluationContext) async throws(LedgerError)

  /// Ends the provisional grants that have expired, and reevaluates their users.
  /// - Returns: how many grants ended.
  func endProvisional(_ evaluationContext: EvaluationContext) async throws(LedgerError) -> Int

  /// Reevaluates a user after a change of the rules that no other event would apply.
  /// - Parameters:
  ///   - base64: the receipt that led to this call, for the history.
  ///   - admits: called before the verdict replaces the previous one.
  /// - Returns: whether the verdict was approved or is unchanged.
  func reevaluate(
    _ user: UserID, receipt base64: String, requestID: String, _ evaluationContext: EvaluationContext,
    approves: @escaping Approval
  ) async throws(LedgerError) -> Bool

  /// The outbox entry of a user's row; `nil` if the row is up to date.
  func waitingUpdate(of user: UserID) async throws(LedgerError) -> WaitingUpdate?

  /// Whether an update is certainly its user's newest, and not written yet. It then need not be read again.
  func isNewest(_ update: WaitingUpdate) -> Bool

  /// As `settleUpdate` of a waiting row, without an fsync of its own: the next commit takes it along. After a crash the
  /// row is written once more, with the same version.
  func settleLater(_ update: WaitingUpdate, isDoubtful: Bool, confirmingAt again: Date?)

  /// Claims the due updates of the outbox, the longest waiting first. An unsettled one becomes due again at `lease`.
  func claimUpdates(dueAt now: Date, until lease: Date, limit: Int) async throws(LedgerError) -> [WaitingUpdate]

  /// Marks an update as written. An update of a newer version stays queued.
  /// - Parameters:
  ///   - isDoubtful: an older write may still be executed after this one, though none is known to have failed that way.
  ///   - again: when to write the row once more in that case; `nil` for a store that refuses a version older than the
  ///     row's.
  func settleUpdate(
    of user: UserID, version: Int64, isDoubtful: Bool, confirmingAt again: Date?
  ) async throws(LedgerError)

  /// Counts a missing row, and schedules the next attempt. An update of a newer version stays queued.
  func missUpdate(of user: UserID, version: Int64, retryAt due: Date) async throws(LedgerError)

  /// Counts a failed attempt at an update and schedules the next. An update of a newer version is left unchanged.
  /// - Parameters:
  ///   - problem: the store's code.
  ///   - isDoubtful: the write may still be executed, even after a later one.
  func retryUpdate(
    of user: UserID, version: Int64, at due: Date, problem: String, isDoubtful: Bool
  ) async throws(LedgerError)

  /// Raises the version of a failed update, and of every later one, above an impossible version found in the app's row.
  /// An update of a newer version is left unchanged.
  func raiseUpdate(of user: UserID, version: Int64, above floor: Int64) async throws(LedgerError)

  /// Returns claimed updates that were not attempted: they are due at once.
  /// - Parameter lease: the end of the claim. An update that was settled or postponed since is left unchanged.
  func returnUpdates(of users: [UserID], claimedUntil lease: Date) async throws(LedgerError)

  /// Claims the subscriptions due for a check, the longest overdue first. Each claim postpones the next one, by two
  /// minutes at first and up to a day; evidence from `record` replaces that schedule.
  func claimRechecks(dueAt now: Date, limit: Int) async throws(LedgerError) -> [Recheck]

  /// Undoes claims and delays made by a clock that was ahead: everything is due as if they had never been. Work that is
  /// in progress may be claimed twice.
  func releaseClaims() async throws(LedgerError)

  /// A short text that has to survive a restart, by name.
  func memo(_ name: String) async throws(LedgerError) -> String?
  func keepMemo(_ name: String, _ text: String?) async throws(LedgerError)

  /// The state of the queues.
  func backlog(at now: Date) async throws(LedgerError) -> LedgerBacklog

  /// A number that grows with every commit that changes what `profile` says of a user, before the commit is
  /// acknowledged: what was read holds while the number from before the read does.
  func generation(of user: UserID) -> UInt64

  /// All evidence of a user and the last recorded verdict; `nil` for an unknown user.
  func profile(of user: UserID) async throws(LedgerError) -> LedgerProfile?

  /// The outcome of an earlier validation of this receipt for a user.
  func knowledge(of receiptBase64: String, for user: UserID) async throws(LedgerError) -> ReceiptKnowledge

  /// The stored receipts that contain an original transaction ID: one per environment.
  func receipts(mentioning id: OriginalTransactionID) async throws(LedgerError) -> [KeptReceipt]

  /// A user's verdicts, newest first.
  /// - Parameter before: the `sequence` to continue below; `nil` begins with the newest.
  func history(of user: UserID, before: Int64?, limit: Int) async throws(LedgerError) -> [HistoryEntry]

  /// Whether the ledger can be read and written now.
  func check() async throws(LedgerError)
}
