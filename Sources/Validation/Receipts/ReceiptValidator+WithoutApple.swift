import AppStore
import Entitlements
import Ledger
import Logging

import struct FoundationEssentials.Date

/// Answers while Apple cannot be asked.
extension ReceiptValidator {
  /// Answers with what is proven, or keeps a new purchase until Apple can be asked.
  ///
  /// - Throws: `error`, where neither is right.
  @inline(never)
  func answer(
    without error: ValidationError, about reference: PurchaseReference, of submission: ReceiptSubmission,
    _ mode: ValidationMode, logger: Logger, onWait: @Sendable () -> Void
  ) async throws(ValidationError) -> ValidatedEntitlement {
    if case .notAskable = error, mode.isRequest {
      guard let proven = try await lastProvenState(of: submission, covering: reference) else {
        throw .unknownTransaction
      }
      return proven
    }
    // A receipt that Apple has rejected once does not wait for the end of an outage: the client has to send it again.
    guard case .appStoreUnavailable(let cause) = error, cause != .doubtful else { throw error }
    #if PLANTED_DEFECTS
      if PlantedDefect.troubleEndsAccess.isActive, let receipt = reference.receipt {
        return try await endAccess(receipt, reference.proof, of: submission)
      }
    #endif
    // The service's own checks want a fresh answer or none.
    guard mode.isRequest else { throw error }
    if let proven = try await lastProvenState(of: submission, covering: reference) { return proven }
    guard let receipt = reference.receipt, reference.proof.mayWait(after: cause) else { throw error }
    return try await postpone(
      receipt, reference.proof, of: submission, after: cause, logger: logger, onWait: onWait)
  }

  /// The last proven state, marked stale: trouble upstream never lowers a tier.
  ///
  /// The state is an answer only if nothing new was presented: a known purchase by its ID, this very receipt, or a receipt
  /// with known purchases only.
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

  /// Keeps a new purchase until Apple can be asked, and grants meanwhile what its signature proves.
  ///
  /// An answer without it would lose it: the app finishes the transaction on any 2xx.
  private func postpone(
    _ receipt: SubmittedReceipt, _ proof: LocalProof, of submission: ReceiptSubmission,
    after cause: AppStoreError, logger: Logger, onWait: @Sendable () -> Void
  ) async throws(ValidationError) -> ValidatedEntitlement {
    // A purchase that is signed for another app, or for a store that the user may not use, does not wait for Apple.
    if let bundleID = proof.bundleID, !gateway.apps.contains(bundleID) { throw .wrongApp(appleStatus: nil) }
    if let history = proof.history(evaluatedAt: verdicts.now()),
      !rules.accepts(history.environment, for: submission.user)
    {
      throw .sandboxRefused(appleStatus: nil)
    }
    let evaluationContext = verdicts.evaluationContext
    let pending = PendingReceipt(
      user: submission.user, base64: receipt.base64, requestID: submission.requestID,
      receivedAt: evaluationContext.recordedAt)
    // Apple has answered if it calls the receipt malformed: anybody can change the outer bytes without harm to the
    // signature, and must not get around Apple's verdict so. Such a grant is only reserved. If Apple cannot be asked at
    // all, the first user with the purchase is granted it, and nobody else is.
    let grants = provisionalEvidence(of: proof, for: submission.user, at: evaluationContext.evaluatedAt)
      .map { cause.mayBeProvoked ? $0.reserved : $0 }
    let outcome = try await consult(await ledger.run(Postpone(pending, provisional: grants, evaluationContext)))
    switch outcome {
    case .kept: break
    case .tooMany: throw .appStoreUnavailable(cause)
    case .full:
      logger.error("the store for pending receipts is full until Apple answers again")
      throw .appStoreUnavailable(cause)
    }
    let profile = try await profile(of: submission.user)
    var answer = standing(of: submission.user, profile)
    answer.isPending = true
    if verdicts.isBeingWritten(submission.user) { onWait() }
    if let profile { answer.write = await verdicts.write(submission.user, profile.write, logger: logger) }
    return answer
  }

  /// The evidence of the signature, of our app and of a store that this user may use, unless the purchase names another
  /// user: it has to be free for them.
  private func provisionalEvidence(
    of proof: LocalProof, for user: UserID, at now: Date
  ) -> [SubscriptionEvidence] {
    guard provisional > .zero, let history = proof.history(evaluatedAt: now),
      rules.accepts(history.environment, for: user)
    else { return [] }
    let others = Set(
      history.evidence().filter { $0.namesAnother(than: user, tokensAreUserIDs: verdicts.accountTokenIsUserID) }
        .map(\.key))
    return history.provisionalEvidence(at: now, until: now.advanced(by: provisional), catalog: rules.catalog)
      .filter { !others.contains($0.key) }
  }

  /// The standing of a user now, without an answer from Apple.
  func standing(of user: UserID, _ profile: LedgerProfile?) -> ValidatedEntitlement {
    var entitlement = rules.standing(of: user, profile, at: verdicts.now())
    entitlement.isStale = !entitlement.isProvisional
    let write: ProfileWrite =
      if verdicts.writeBack != nil, user.mayHaveRow, let profile {
        ProfileWrite(profile.write).adjusted(forShown: entitlement, recorded: profile.entitlement)
      } else { .none }
    return ValidatedEntitlement(user: user, entitlement: entitlement, isFromLedger: true, write: write)
  }
}

#if PLANTED_DEFECTS
  extension ReceiptValidator {
    /// A planted defect: treats Apple's trouble as the end of the account.
    private func endAccess(
      _ receipt: SubmittedReceipt, _ proof: LocalProof, of submission: ReceiptSubmission
    ) async throws(ValidationError) -> ValidatedEntitlement {
      let now = verdicts.now()
      let accepted = AppStoreGateway.AcceptedAnswer(
        history: PurchaseHistory(
          environment: .production, source: .verifyReceipt, evidenceTime: now, evaluatedAt: now, purchases: [],
          isAccountGone: true),
        bundleID: receipt.claimedBundleID, signedTransactions: [:], isReused: false,
        evaluatedAt: now)
      let reference = PurchaseReference(receipt: receipt, proof: DeferredProof(proof))
      let evidence = try await evidence(of: accepted, reference, for: submission)
      let recorded = try await record(evidence, accepted, reference, for: submission, .request)
      return ValidatedEntitlement(
        user: submission.user, entitlement: recorded.entitlement, isFromLedger: false, write: .none)
    }
  }
#endif
