import AppStore
package import Entitlements
package import Ledger
package import Logging
import Resilience

import struct FoundationEssentials.Date

/// The job of the service: a receipt comes in, Apple is asked, the answer is judged, recorded, written back, and given
/// back.
package struct ReceiptValidator: Sendable {
  package var gateway: AppStoreGateway
  package var ledger: any Ledger
  package var ownership: OwnershipPolicy
  /// How long a new purchase counts on its signature while Apple cannot be asked (`policy.provisional`); zero for not at
  /// all.
  package var provisional: Duration
  /// `nil` where no profile store is configured.
  package var writeBack: ProfileWriteBack?
  /// Users can make up IDs, and each that is not known costs calls to both stores, of the few that Apple allows: so many
  /// at once keep no purchase waiting, and one of each user keeps no other user out.
  var lookUps = ConcurrencyLimit<UserID>(limit: 4)
  /// Told of each verdict on an answer of Apple's once it is recorded.
  package var onVerdict: @Sendable (Entitlement) -> Void = { _ in }

  package init(
    gateway: AppStoreGateway, ledger: any Ledger, ownership: OwnershipPolicy, provisional: Duration,
    writeBack: ProfileWriteBack? = nil, onVerdict: @escaping @Sendable (Entitlement) -> Void = { _ in }
  ) {
    self.gateway = gateway
    self.ledger = ledger
    self.ownership = ownership
    self.provisional = provisional
    self.writeBack = writeBack
    self.onVerdict = onVerdict
  }

  private var rules: EntitlementRules { gateway.rules }

  /// On whose behalf a receipt is validated, and what follows from that.
  package enum ValidationMode: Sendable {
    /// A caller waits. While Apple cannot be asked, a purchase never seen before is kept and acknowledged.
    case request
    /// Somebody wants to know what Apple says now, about a purchase that is known: no answer of a moment ago will do.
    case inquiry
    /// The receipt was acknowledged and waits, under this ID.
    case settlement(Int64)
    /// The service asks by itself, and does not record a verdict that is not admitted. A run's subscription is settled
    /// with what is recorded.
    case recheck(approves: Approval, settling: RunItem? = nil)

    fileprivate var approves: Approval {
      guard case .recheck(let approves, _) = self else { return { _, _ in true } }
      return approves
    }

    fileprivate var runItem: RunItem? {
      guard case .recheck(_, let item) = self else { return nil }
      return item
    }

    fileprivate var pendingID: Int64? {
      guard case .settlement(let id) = self else { return nil }
      return id
    }

    /// Whether a caller waits who is told the last proven state where Apple cannot be asked.
    fileprivate var isRequest: Bool {
      switch self {
      case .request, .inquiry: true
      case .settlement, .recheck: false
      }
    }

    /// Whether retries use the shared budget. A pending receipt is asked about again anyway, and leaves them to callers.
    fileprivate var retriesTrouble: Bool { pendingID == nil }

    fileprivate var mayReuse: Bool {
      guard case .request = self else { return false }
      return true
    }
  }

  /// Decode, verify, evaluate, record, write back, answer.
  ///
  /// The result is durable: it survives a power cut the instant after.
  ///
  /// - Parameter onWait: told when all is done but the app's rows, and somebody else is writing the user's just now.
  package func validate(
    _ submission: ReceiptSubmission, _ mode: ValidationMode = .request, logger: Logger,
    onWait: @Sendable () -> Void = {}
  ) async throws(ValidationError) -> ValidatedEntitlement {
    let reference = try await reference(of: submission)
    let isGuess = reference.receipt == nil && !submission.isVouchedFor
    if isGuess, !lookUps.enter(submission.user) { throw .overloaded }
    defer { if isGuess { lookUps.leave(submission.user) } }
    let accepted: AppStoreGateway.AcceptedAnswer
    do throws(AppStoreTrouble) {
      accepted = try await gateway.ask(
        about: reference, for: submission.user, mayReuse: mode.mayReuse, retriesTrouble: mode.retriesTrouble,
        logger: logger)
    } catch {
      switch error {
      case .refused(.notAskable) where mode.isRequest:
        guard let proven = try await lastProvenState(of: submission, covering: reference) else {
          throw .unknownTransaction
        }
        return proven
      case .refused(let refusal): throw refusal
      case .unavailable(let outage):
        #if PLANTED_DEFECTS
          if PlantedDefect.troubleEndsAccess.isActive, let receipt = reference.receipt {
            return try await endAccess(receipt, reference.proof, of: submission)
          }
        #endif
        // The service's own checks want a fresh answer or none.
        guard mode.isRequest else { throw .appStoreUnavailable(appleStatus: outage.appleStatus) }
        if let proven = try await lastProvenState(of: submission, covering: reference) { return proven }
        guard let receipt = reference.receipt, reference.proof.mayWait(after: outage) else {
          throw .appStoreUnavailable(appleStatus: outage.appleStatus)
        }
        return try await postpone(
          receipt, reference.proof, of: submission, after: outage, logger: logger, onWait: onWait)
      }
    }
    let evidence = try await evidence(of: accepted, reference, for: submission)
    // Evaluated by the rules and recorded in one transaction, as the verdict is over everything known of the user.
    let recorded = try await record(evidence, accepted, reference, for: submission, mode)
    onVerdict(recorded.entitlement)
    logger.info(
      "validated",
      metadata: [
        "user_id": "\(submission.user)", "tier": "\(recorded.entitlement.tier)",
        "status": "\(recorded.entitlement.status.rawValue)", "reason": "\(recorded.entitlement.reason.rawValue)",
        "environment": "\(accepted.history.environment.rawValue)", "changed": .stringConvertible(recorded.changed),
        "source": "\(accepted.history.source.rawValue)", "receipt": "\(reference.name)",
      ])
    if isBeingWritten(submission.user) { onWait() }
    let write = await write(submission.user, recorded.write, after: recorded.losers, logger: logger)
    return ValidatedEntitlement(
      user: submission.user, entitlement: recorded.entitlement, isFromLedger: accepted.isReused, write: write)
  }

  /// Until when the rows of a verdict that is recorded now are nobody else's: `write` may take as long for a loser's as for
  /// the user's own. More than one loser is rare, and whoever delivers the rows may then come in between.
  var rowsClaim: Date? { writeBack.map { gateway.now().advanced(by: $0.deadline * 2) } }

  /// Brings the app's own rows up to date: of those who lost a purchase first, as a row may be the only one that may name
  /// it.
  func write(
    _ user: UserID, _ state: ProfileWriteState, after losers: [UserID] = [], logger: Logger
  ) async -> ProfileWrite {
    guard let writeBack else { return .none }
    for loser in losers { _ = await writeBack.write(loser, logger: logger) }
    // An app that makes its rows after the purchase need not wait until somebody looks for them again.
    guard state != .written else { return .committed }
    switch await writeBack.write(user, logger: logger) {
    case .settled(let state): return ProfileWrite(state)
    case .refused, .failed: return .queued
    }
  }

  /// Whether another task is writing the app's row of a user.
  private func isBeingWritten(_ user: UserID) -> Bool { writeBack?.rowLocks.isLocked(user) ?? false }

  /// Resolves a submission: the receipt sent, the one stored, or a purchase by its ID.
  private func reference(of submission: ReceiptSubmission) async throws(ValidationError) -> PurchaseReference {
    switch submission.proof {
    case .receipt(let text):
      return try await LongWork.run(bytes: text.utf8.count) { () throws(ValidationError) in
        let receipt = try gateway.decode(text)
        return PurchaseReference(receipt: receipt, proof: try gateway.proof(of: receipt))
      }
    case .kept(let key, let kept):
      return try await reference(key.originalTransactionID, kept)
    case .originalTransactionID(let id):
      let kept = try await consult(await ledger.receipts(mentioning: id))
      guard !kept.isEmpty else {
        guard gateway.serverAPI != nil else { throw .unknownTransaction }
        return PurchaseReference(id: id)
      }
      // An ID is no proof of a purchase: anybody can guess one. It refreshes what the user owns and moves nothing.
      let owned = kept.filter { $0.owner == submission.user }
      guard let receipt = owned.first(where: { $0.environment == .production }) ?? owned.first else {
        // Who has it by its name alone has it until somebody comes for it: that a notification was faster than whoever
        // vouches for another user decides nothing.
        guard submission.isVouchedFor, gateway.serverAPI != nil, kept.allSatisfy(\.isOwnedByName) else {
          throw .ownedByAnotherUser
        }
        return PurchaseReference(id: id)
      }
      return try await reference(id, receipt)
    }
  }

  /// A purchase that is known, with what is kept of it.
  ///
  /// What is kept was proven, or believed on Apple's word, when it came; roots and policies may have changed since. To ask
  /// the Server API takes the ID only; what is to be sent to verifyReceipt has to pass the check again.
  private func reference(_ id: OriginalTransactionID, _ kept: KeptReceipt) async throws(ValidationError)
    -> PurchaseReference
  {
    try await LongWork.run(bytes: kept.base64.utf8.count) { () throws(ValidationError) in
      let receipt = try gateway.decode(kept.base64)
      let proof = gateway.serverAPI == nil ? try gateway.proof(of: receipt) : gateway.unrequiredProof(of: receipt)
      return PurchaseReference(
        receipt: receipt, proof: proof, id: id, environment: kept.environment, bundleID: kept.bundleID)
    }
  }

  /// The answer by subscription.
  ///
  /// Of an account that is gone Apple says nothing else. What ends is what the receipt lists, what it proved before, and
  /// the purchase that was asked for.
  private func evidence(
    of accepted: AppStoreGateway.AcceptedAnswer, _ reference: PurchaseReference, for submission: ReceiptSubmission
  ) async throws(ValidationError) -> [SubscriptionEvidence] {
    let history = accepted.history
    guard history.isAccountGone, let receipt = reference.receipt else {
      return history.evidence() + unmentioned(by: history, reference)
    }
    var ended = history
    ended.purchases = receipt.purchases
    var evidence = Dictionary(ended.evidence().map { ($0.key, $0) }) { first, _ in first }
    let proves = try await knowledge(of: receipt, for: submission.user).proves
    for stored in try await profile(of: submission.user)?.evidence ?? [] where stored.provisionalUntil == nil {
      let isAskedFor = submission.proof.originalTransactionID == stored.key.originalTransactionID
      guard evidence[stored.key] != nil || proves.contains(stored.key) || isAskedFor else { continue }
      var gone = stored
      gone.source = history.source
      gone.isAccountGone = true
      gone.evidenceTime = max(stored.evidenceTime, history.evidenceTime)
      gone.evaluatedAt = max(stored.evaluatedAt, history.evaluatedAt)
      evidence[stored.key] = gone
    }
    return Array(evidence.values)
  }

  /// What a signature proves and the Server API's answer does not speak of: it leaves out what can be bought again and
  /// again.
  private func unmentioned(by history: PurchaseHistory, _ reference: PurchaseReference) -> [SubscriptionEvidence] {
    guard history.source == .serverAPI, var proven = reference.proof.history(evaluatedAt: gateway.now()) else {
      return []
    }
    proven.coverage = .partial(since: nil)
    let reported = Set(history.purchases.map(\.originalTransactionID))
    return proven.evidence().filter { !reported.contains($0.key.originalTransactionID) }
  }

  /// The text to store, to ask Apple again or to show Apple's signature.
  private func keptReceipt(
    of accepted: AppStoreGateway.AcceptedAnswer, _ reference: PurchaseReference
  ) throws(ValidationError) -> KeptReceipt {
    let signed =
      reference.id.flatMap { accepted.proofs[$0] } ?? accepted.proofs.min { $0.key.rawValue < $1.key.rawValue }?.value
    guard let text = reference.receipt?.base64 ?? signed else { throw .unknownTransaction }
    return KeptReceipt(base64: text, environment: accepted.history.environment, bundleID: accepted.bundleID)
  }

  /// Whether a purchase that nobody has may become this user's by its ID: somebody vouches for them, or the app named them
  /// when it was bought.
  private func mayClaim(
    _ reference: PurchaseReference, _ evidence: [SubscriptionEvidence], _ submission: ReceiptSubmission
  ) -> Bool {
    guard reference.receipt == nil, !submission.isVouchedFor else { return true }
    return evidence.contains { item in
      item.key.originalTransactionID == reference.id && item.names(submission.user)
    }
  }

  private func record(
    _ evidence: [SubscriptionEvidence], _ accepted: AppStoreGateway.AcceptedAnswer, _ reference: PurchaseReference,
    for submission: ReceiptSubmission, _ mode: ValidationMode
  ) async throws(ValidationError) -> Recorded {
    guard mayClaim(reference, evidence, submission) else { throw .unknownTransaction }
    let history = accepted.history
    var entry = LedgerEntry(
      user: submission.user,
      evidence: evidence,
      contestedKeys: contestedKeys(evidence),
      receipt: try keptReceipt(of: accepted, reference),
      // An ID proves nothing: whatever else its kept receipt lists stays where it is.
      ownership: submission.proof.originalTransactionID == nil ? ownership : .keep,
      // A signature tells what was when it was made, and is presented now; whoever was asked has told what is.
      evaluatedAt: accepted.source == .signature ? max(history.evaluatedAt, gateway.now()) : history.evaluatedAt,
      recordedAt: gateway.now(),
      requestID: submission.requestID,
      evaluate: evaluate,
      nextCheck: nextCheck,
      approves: mode.approves)
    // To ask about what is known is not to present it.
    if case .kept = submission.proof { entry.isPresented = false }
    // Only what verifyReceipt has answered about is worth more than what is kept: the rest cannot be sent to it.
    entry.keepsReceipts = accepted.source != .verifyReceipt
    entry.keysNamingOthers = Set(evidence.filter { $0.namesAnother(than: submission.user) }.map(\.key))
    entry.pendingID = mode.pendingID
    entry.runItem = mode.runItem
    entry.note = submission.note
    entry.rowsClaimedUntil = rowsClaim
    switch try await consult(await ledger.record(entry)) {
    case .recorded(let recorded): return recorded
    case .ownedByAnotherUser: throw .ownedByAnotherUser
    case .heldBack: throw .heldBack
    }
  }

  /// The keys that bear on ownership: those with a product of the catalog. Where there are none, all of them: the catalog
  /// may have the product tomorrow, and the purchase is its owner's then.
  private func contestedKeys(_ evidence: [SubscriptionEvidence]) -> Set<SubscriptionKey> {
    let catalogued = evidence.filter(rules.isCatalogued)
    return Set((catalogued.isEmpty ? evidence : catalogued).map(\.key))
  }

  /// When a purchase has to be looked at again: Apple is asked then, or where nobody can be, it is seen to that what has
  /// ended by time alone is no longer held.
  var nextCheck: NextCheck { { [rules] evidence, now in rules.nextCheck(of: evidence, at: now) } }

  private var evaluate: Evaluator { { [rules] user, evidence, now in rules.evaluate(user, evidence, at: now) } }

  /// How verdicts are judged anew now, without an answer of Apple's.
  var evaluationContext: EvaluationContext {
    let now = gateway.now()
    return EvaluationContext(evaluatedAt: now, recordedAt: now, evaluate: evaluate)
  }

  /// The last proven state, marked stale: trouble upstream never lowers a tier.
  ///
  /// It stands in only where nothing new was presented: a purchase that is known, by its ID, by this very receipt, or by
  /// every purchase that the receipt lists.
  private func lastProvenState(
    of submission: ReceiptSubmission, covering reference: PurchaseReference
  ) async throws(ValidationError) -> ValidatedEntitlement? {
    guard let receipt = reference.receipt, let profile = try await profile(of: submission.user) else { return nil }
    if submission.proof.originalTransactionID != nil { return standing(of: submission.user, profile) }
    let known = KnownPurchases(profile.evidence)
    var isKnown = receipt.purchases.allSatisfy(known.contains)
    if !isKnown { isKnown = try await knowledge(of: receipt, for: submission.user).wasEvaluated }
    return isKnown ? standing(of: submission.user, profile) : nil
  }

  /// Keeps a purchase that was never seen before until Apple can be asked, and grants meanwhile what its signature proves.
  ///
  /// To answer with a state that does not contain it, and not to keep it, would lose it: the app finishes the transaction
  /// on any 2xx.
  private func postpone(
    _ receipt: SubmittedReceipt, _ proof: LocalProof, of submission: ReceiptSubmission,
    after outage: AppStoreTrouble.Outage, logger: Logger, onWait: @Sendable () -> Void
  ) async throws(ValidationError) -> ValidatedEntitlement {
    // A purchase of another app, by its signature, does not wait for Apple.
    if let bundleID = proof.bundleID, !gateway.bundleIDs.contains(bundleID) { throw .wrongApp(appleStatus: nil) }
    let evaluationContext = evaluationContext
    let pending = PendingReceipt(
      user: submission.user, base64: receipt.base64, requestID: submission.requestID,
      receivedAt: evaluationContext.recordedAt)
    // Of a receipt that Apple calls malformed, and Apple has not been failing, Apple has been asked: its outer bytes can be
    // changed by anybody without harm to the signature, and must not be a way around Apple's word. Who comes first with
    // the purchase is granted it when Apple cannot be asked at all, and nobody else is.
    let grants = provisionalEvidence(of: proof, for: submission.user, at: evaluationContext.evaluatedAt)
      .map { outage.mayBeProvoked ? $0.reserved : $0 }
    let outcome = try await consult(await ledger.postpone(pending, provisional: grants, evaluationContext))
    switch outcome {
    case .kept: break
    case .tooMany: throw .appStoreUnavailable(appleStatus: outage.appleStatus)
    case .full:
      logger.error("the store for pending receipts is full until Apple answers again")
      throw .appStoreUnavailable(appleStatus: outage.appleStatus)
    }
    let profile = try await profile(of: submission.user)
    var answer = standing(of: submission.user, profile)
    answer.isPending = true
    if isBeingWritten(submission.user) { onWait() }
    if let profile { answer.write = await write(submission.user, profile.write, logger: logger) }
    return answer
  }

  /// What a receipt proves by its signature, of our app and of a store that this user may use, unless it names another
  /// user: they will come for it, and must find it free.
  private func provisionalEvidence(
    of proof: LocalProof, for user: UserID, at now: Date
  ) -> [SubscriptionEvidence] {
    guard provisional > .zero, let history = proof.history(evaluatedAt: now),
      rules.accepts(history.environment, for: user)
    else { return [] }
    let others = Set(history.evidence().filter { $0.namesAnother(than: user) }.map(\.key))
    return history.provisionalEvidence(at: now, until: now.advanced(by: provisional), catalog: rules.catalog)
      .filter { !others.contains($0.key) }
  }

  /// The user after somebody had Apple asked about all that is theirs.
  /// - Parameters:
  ///   - isFresh: Apple has answered about everything: the verdict is the one that was recorded, by Apple's clock.
  ///   - isWanting: an answer was wanted and could not be had.
  func standing(
    of user: UserID, isFresh: Bool, isWanting: Bool, logger: Logger
  ) async throws(ValidationError) -> ValidatedEntitlement {
    let profile = try await profile(of: user)
    var answer = standing(of: user, profile)
    if isFresh, let profile {
      answer.entitlement = profile.entitlement
      answer.isFromLedger = false
    } else if !isWanting {
      answer.entitlement = rules.standing(of: user, profile, at: gateway.now())
    }
    if let profile {
      answer.write = await write(user, profile.write, logger: logger)
        .telling(answer.entitlement, recorded: profile.entitlement)
    }
    return answer
  }

  /// The operator decided, after the purchase counted, that it does not: the verdict has to say so.
  func reevaluate(_ submission: ReceiptSubmission) async throws(ValidationError) {
    guard case .kept(_, let receipt) = submission.proof else { return }
    _ = try await consult(
      await ledger.reevaluate(
        submission.user, receipt: receipt.base64, requestID: submission.requestID, evaluationContext,
        approves: { _, _ in true }))
  }

  /// The standing of a user now, without an answer from Apple.
  private func standing(of user: UserID, _ profile: LedgerProfile?) -> ValidatedEntitlement {
    var entitlement = rules.standing(of: user, profile, at: gateway.now())
    entitlement.isStale = !entitlement.isProvisional
    let write: ProfileWrite =
      if writeBack != nil, let profile {
        ProfileWrite(profile.write).telling(entitlement, recorded: profile.entitlement)
      } else { .none }
    return ValidatedEntitlement(user: user, entitlement: entitlement, isFromLedger: true, write: write)
  }

  private func knowledge(
    of receipt: SubmittedReceipt, for user: UserID
  ) async throws(ValidationError) -> ReceiptKnowledge {
    try await consult(await ledger.knowledge(of: receipt.base64, for: user))
  }

  private func profile(of user: UserID) async throws(ValidationError) -> LedgerProfile? {
    try await consult(await ledger.profile(of: user))
  }
}

#if PLANTED_DEFECTS
  extension ReceiptValidator {
    /// A planted defect: takes Apple's trouble for the end of the account.
    private func endAccess(
      _ receipt: SubmittedReceipt, _ proof: LocalProof, of submission: ReceiptSubmission
    ) async throws(ValidationError) -> ValidatedEntitlement {
      let now = gateway.now()
      let accepted = AppStoreGateway.AcceptedAnswer(
        history: PurchaseHistory(
          environment: .production, source: .verifyReceipt, evidenceTime: now, evaluatedAt: now, purchases: [],
          isAccountGone: true),
        bundleID: receipt.claimedBundleID, source: .verifyReceipt, proofs: [:], isReused: false)
      let reference = PurchaseReference(receipt: receipt, proof: proof)
      let evidence = try await evidence(of: accepted, reference, for: submission)
      let recorded = try await record(evidence, accepted, reference, for: submission, .request)
      return ValidatedEntitlement(
        user: submission.user, entitlement: recorded.entitlement, isFromLedger: false, write: .none)
    }
  }
#endif
