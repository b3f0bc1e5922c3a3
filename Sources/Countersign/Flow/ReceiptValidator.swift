import AppStore
import Entitlements
import Ledger
import Logging

import struct FoundationEssentials.Date

/// The job of the service: a receipt comes in, Apple is asked, the answer is judged, recorded, and given back.
struct ReceiptValidator: Sendable {
  var examiner: ReceiptExaminer
  var ledger: any Ledger
  var ownership: OwnershipPolicy

  private var rules: EntitlementRules { examiner.rules }

  /// What to do with a new purchase while Apple cannot be asked.
  enum Patience: Sendable {
    /// Keep the receipt, acknowledge it, settle it later.
    case postpone
    /// Say so: the receipt is kept already.
    case settle
  }

  /// Decode, verify, evaluate, record, answer.
  ///
  /// What this returns is durable: it survives a power cut the instant after.
  func validate(
    _ submission: ReceiptSubmission, _ patience: Patience = .postpone, logger: Logger
  ) async throws(ValidationError) -> ValidatedEntitlement {
    let receipt = try await receipt(of: submission)
    let proof = try examiner.proof(of: receipt)
    let history: PurchaseHistory
    do throws(AppStoreTrouble) {
      history = try await examiner.ask(about: receipt, proof, for: submission.user, logger: logger)
    } catch {
      switch error {
      case .refused(let refusal): throw refusal
      case .unavailable(let appleStatus):
        if let proven = try await lastProvenState(of: submission, covering: receipt) { return proven }
        guard patience == .postpone else { throw .appStoreUnavailable(appleStatus: appleStatus) }
        return try await postpone(receipt, proof, of: submission, appleStatus: appleStatus)
      }
    }
    let evidence = try await evidence(of: history, receipt, for: submission)
    // Evaluated by the rules and recorded in one transaction, as the verdict is over everything known of the user.
    let recorded = try await record(evidence, history, receipt, for: submission)
    logger.info(
      "validated",
      metadata: [
        "user_id": "\(submission.user)", "tier": "\(recorded.entitlement.tier)",
        "status": "\(recorded.entitlement.status.rawValue)", "reason": "\(recorded.entitlement.reason.rawValue)",
        "environment": "\(history.environment.rawValue)", "changed": "\(recorded.changed)",
        "receipt": "\(receipt.fingerprint.short)",
      ])
    return ValidatedEntitlement(user: submission.user, entitlement: recorded.entitlement, isFromLedger: false)
  }

  /// The receipt a submission stands for: the one that was sent, or the one that was kept.
  private func receipt(of submission: ReceiptSubmission) async throws(ValidationError) -> SubmittedReceipt {
    switch submission.proof {
    case .receipt(let text):
      return try examiner.decode(text)
    case .originalTransactionID(let id):
      let kept = try await consult { () throws(LedgerError) in try await ledger.receipts(mentioning: id) }
      guard !kept.isEmpty else { throw .unknownTransaction }
      // An ID is no proof of a purchase: anybody can guess one. It refreshes what the user owns and moves nothing.
      let owned = kept.filter { $0.owner == submission.user }
      guard let receipt = owned.first(where: { $0.environment == .production }) ?? owned.first else {
        throw .ownedByAnotherUser
      }
      return try examiner.decode(receipt.base64)
    }
  }

  /// The answer by subscription.
  ///
  /// Of an account that is gone Apple says nothing else. What ends is what the receipt lists, what it proved before, and
  /// the purchase that was asked for.
  private func evidence(
    of history: PurchaseHistory, _ receipt: SubmittedReceipt, for submission: ReceiptSubmission
  ) async throws(ValidationError) -> [SubscriptionEvidence] {
    guard history.isAccountGone else { return history.evidence() }
    var ended = history
    ended.purchases = receipt.purchases
    var evidence = Dictionary(ended.evidence().map { ($0.key, $0) }) { first, _ in first }
    let proves = try await knowledge(of: receipt, for: submission.user).proves
    for stored in try await profile(of: submission.user)?.evidence ?? [] {
      let isAskedFor = submission.proof.originalTransactionID == stored.key.originalTransactionID
      guard evidence[stored.key] != nil || proves.contains(stored.key) || isAskedFor else { continue }
      var gone = stored
      gone.source = history.source
      gone.isAccountGone = true
      gone.evidenceTime = max(stored.evidenceTime, history.evidenceTime)
      gone.judgedAt = max(stored.judgedAt, history.judgedAt)
      evidence[stored.key] = gone
    }
    return Array(evidence.values)
  }

  private func record(
    _ evidence: [SubscriptionEvidence], _ history: PurchaseHistory, _ receipt: SubmittedReceipt,
    for submission: ReceiptSubmission
  ) async throws(ValidationError) -> Recorded {
    let entry = LedgerEntry(
      user: submission.user,
      evidence: evidence,
      contestedKeys: Set(evidence.filter(rules.isCatalogued).map(\.key)),
      receipt: KeptReceipt(
        base64: receipt.base64, environment: history.environment, bundleID: receipt.claimedBundleID),
      // An ID proves nothing: whatever else its kept receipt lists stays where it is.
      ownership: submission.proof.originalTransactionID == nil ? ownership : .keep,
      judgedAt: history.judgedAt,
      recordedAt: examiner.now(),
      requestID: submission.requestID,
      judge: { [rules] user, evidence, now in rules.judge(user, evidence, at: now) })
    switch try await consult({ () throws(LedgerError) in try await ledger.record(entry) }) {
    case .recorded(let recorded): return recorded
    case .ownedByAnotherUser: throw .ownedByAnotherUser
    }
  }

  /// The last proven state, marked stale: trouble upstream never lowers a tier.
  ///
  /// It stands in only where nothing new was presented: a purchase that is known, by its ID, by this very receipt, or by
  /// every purchase that the receipt lists.
  private func lastProvenState(
    of submission: ReceiptSubmission, covering receipt: SubmittedReceipt
  ) async throws(ValidationError) -> ValidatedEntitlement? {
    guard let profile = try await profile(of: submission.user) else { return nil }
    if submission.proof.originalTransactionID != nil { return standing(of: submission.user, profile) }
    let known = KnownPurchases(profile.evidence)
    var isKnown = receipt.purchases.allSatisfy(known.contains)
    if !isKnown { isKnown = try await knowledge(of: receipt, for: submission.user).wasJudged }
    return isKnown ? standing(of: submission.user, profile) : nil
  }

  /// Keeps a purchase that was never seen before until Apple can be asked.
  ///
  /// To answer with a state that does not contain it, and not to keep it, would lose it: the app finishes the transaction
  /// on any 2xx.
  private func postpone(
    _ receipt: SubmittedReceipt, _ proof: LocalProof, of submission: ReceiptSubmission, appleStatus: Int?
  ) async throws(ValidationError) -> ValidatedEntitlement {
    // What the signature proves to be another app's need not wait for Apple's word.
    if let bundleID = proof.bundleID, !examiner.bundleIDs.contains(bundleID) { throw .wrongApp(appleStatus: nil) }
    let pending = PendingReceipt(
      user: submission.user, base64: receipt.base64, requestID: submission.requestID, receivedAt: examiner.now())
    guard try await consult({ () throws(LedgerError) in try await ledger.postpone(pending) }) == .kept else {
      throw .appStoreUnavailable(appleStatus: appleStatus)
    }
    var answer = standing(of: submission.user, try await profile(of: submission.user))
    answer.isPending = true
    return answer
  }

  /// What is known of a user now, without an answer of Apple's.
  private func standing(of user: UserID, _ profile: LedgerProfile?) -> ValidatedEntitlement {
    var entitlement = rules.judge(user, profile?.evidence ?? [], at: examiner.now())
    entitlement.isStale = true
    return ValidatedEntitlement(user: user, entitlement: entitlement, isFromLedger: true)
  }

  private func knowledge(
    of receipt: SubmittedReceipt, for user: UserID
  ) async throws(ValidationError) -> ReceiptKnowledge {
    try await consult { () throws(LedgerError) in try await ledger.knowledge(of: receipt.base64, for: user) }
  }

  private func profile(of user: UserID) async throws(ValidationError) -> LedgerProfile? {
    try await consult { () throws(LedgerError) in try await ledger.profile(of: user) }
  }

  /// Whatever the ledger's trouble is, the caller can only come back later; the cause is for the log.
  private func consult<Value>(
    _ operation: () async throws(LedgerError) -> Value
  ) async throws(ValidationError) -> Value {
    do { return try await operation() } catch { throw .ledgerUnavailable(error) }
  }
}
