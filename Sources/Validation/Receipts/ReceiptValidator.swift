import AppStore
package import Entitlements
package import Ledger
package import Logging
import Resilience

import struct FoundationEssentials.Date

/// The use case of the service: takes a receipt, asks Apple, evaluates the answer, records the verdict, writes it back
/// and answers.
package final class ReceiptValidator: Sendable {
  let gateway: AppStoreGateway
  let ledger: Ledger
  let verdicts: VerdictContext
  let ownership: OwnershipPolicy
  /// The time for which a new purchase counts on its signature alone while Apple cannot be asked (`policy.provisional`); zero:
  /// not at all.
  let provisional: Duration
  /// The look-ups of unknown IDs. Users can invent IDs, and each costs calls to both stores, of the few that Apple
  /// allows: a few at once delay no purchase, and one for each user keeps no other user out.
  let lookUps = ConcurrencyLimit<UserID>(limit: 4)
  /// Guards the log from posts of a product that the catalog calls by the wrong kind.
  private let isWorthALine = Occasional(most: 1, every: .seconds(60))
  /// Called with each verdict on an answer of Apple's, once it is recorded.
  let onVerdict: @Sendable (Entitlement) -> Void

  package init(
    gateway: AppStoreGateway, ledger: Ledger, verdicts: VerdictContext, ownership: OwnershipPolicy,
    provisional: Duration,
    onVerdict: @escaping @Sendable (Entitlement) -> Void = { _ in }
  ) {
    self.gateway = gateway
    self.ledger = ledger
    self.verdicts = verdicts
    self.ownership = ownership
    self.provisional = provisional
    self.onVerdict = onVerdict
  }

  var rules: EntitlementRules { verdicts.rules }

  /// The reason of a validation, and its consequences.
  package enum ValidationMode: Sendable {
    /// A caller waits. While Apple cannot be asked, a new purchase is kept and acknowledged.
    case request
    /// A caller wants Apple's present answer about a known purchase: a recent one is not enough.
    case inquiry
    /// A receipt was acknowledged and waits, under this ID.
    case settlement(Int64)
    /// A job of the service. A verdict that is not approved is not recorded. The recorded verdict settles an item of a
    /// run.
    case recheck(approves: Approval, settling: RunItem? = nil)

    fileprivate var approves: Approval {
      guard case .recheck(let approves, _) = self else { return { _, _ in true } }
      return approves
    }

    /// Whether a caller waits, who gets the last proven state if Apple cannot be asked.
    var isRequest: Bool {
      switch self {
      case .request, .inquiry: true
      case .settlement, .recheck: false
      }
    }

    /// Whether retries may use the shared budget. A pending receipt is tried again anyway, and leaves them to callers.
    fileprivate var retriesTrouble: Bool { if case .settlement = self { false } else { true } }

    fileprivate var mayReuse: Bool { if case .request = self { true } else { false } }
  }

  /// Decodes, verifies, evaluates, records, writes back, and answers.
  ///
  /// The result is durable: it survives a power cut right after.
  ///
  /// - Parameters:
  ///   - end: the end of Apple's time; `nil`: the gateway's `deadline` from now, for each source.
  ///   - onWait: called when only the app's rows are left to write, and another task is writing the user's.
  package func validate(
    _ submission: ReceiptSubmission, _ mode: ValidationMode = .request, until end: ContinuousClock.Instant? = nil,
    logger: Logger, onWait: @Sendable () -> Void = {}
  ) async throws(ValidationError) -> ValidatedEntitlement {
    let reference = try await reference(of: submission)
    try gateway.requireApp(submission.app, of: reference.receipt)
    let isGuess = reference.receipt == nil && !submission.isVouchedFor
    if isGuess, !lookUps.enter(submission.user) { throw .overloaded }
    defer { if isGuess { lookUps.leave(submission.user) } }
    let accepted: AppStoreGateway.AcceptedAnswer
    do throws(ValidationError) {
      accepted = try await gateway.ask(
        about: reference, for: submission.user, mayReuse: mode.mayReuse, retriesTrouble: mode.retriesTrouble,
        until: end, logger: logger)
    } catch {
      var answer = try await answer(
        without: error, about: reference, of: submission, mode, logger: logger, onWait: onWait)
      try await find(submission, in: [reference.receipt?.purchases ?? []], &answer)
      return answer
    }
    var answer = try await conclude(accepted, reference, of: submission, mode, logger: logger, onWait: onWait)
    let known = [accepted.history.purchases, accepted.receiptPurchases, reference.receipt?.purchases ?? []]
    try await find(submission, in: known, &answer)
    return answer
  }

  /// Says whether purchases have the transaction that the caller wants to finish. One that the app made for another user counts
  /// only where it has become this user's: the other's app is not told of it again.
  ///
  /// - Throws: `ownedByAnotherUser` and `ofUnknownOwnership` for that transaction, beside others that are recorded.
  @inline(never)
  private func find(
    _ submission: ReceiptSubmission, in known: [[Purchase]], _ answer: inout ValidatedEntitlement
  ) async throws(ValidationError) {
    let purchases = known.joined()
    answer.isTransactionFound = submission.finds(in: purchases)
    guard answer.isTransactionFound == true else { return }
    let account = submission.user.accountToken
    let named = purchases.filter { submission.finds(in: [$0]) == true }
    let others = Set(answer.ownedByOthers.map(\.originalTransactionID))
    let isOwned = named.allSatisfy { others.contains($0.originalTransactionID) }
    let isUnknown = !answer.isPending && named.allSatisfy { $0.ownership == .unknown }
    let isMadeForAnother = named.allSatisfy {
      $0.ownership == .purchased && $0.appAccountToken.map { $0 != account } ?? false
    }
    guard isOwned || isUnknown || isMadeForAnother else { return }
    // A purchase may have gone on under another original transaction ID.
    let own = Set(
      try await profile(of: submission.user)?.evidence.flatMap { evidence in
        [evidence.key.originalTransactionID] + evidence.formerKeys.map(\.originalTransactionID)
      } ?? [])
    guard !named.contains(where: { own.contains($0.originalTransactionID) }) else { return }
    if isOwned { throw .ownedByAnotherUser }
    if isUnknown { throw .ofUnknownOwnership }
    answer.isAnothersTransaction = true
    answer.isTransactionFound = false
  }

  /// Evaluates, records and writes back what Apple has answered.
  ///
  /// Not inlined, nor is `answer(without:)`: a request holds the memory of `validate` while it waits for Apple, 1.6 KB, and 6.4
  /// with both.
  @inline(never)
  private func conclude(
    _ accepted: AppStoreGateway.AcceptedAnswer, _ reference: PurchaseReference, of submission: ReceiptSubmission,
    _ mode: ValidationMode, logger: Logger, onWait: @Sendable () -> Void
  ) async throws(ValidationError) -> ValidatedEntitlement {
    let evidence = try await evidence(of: accepted, reference, for: submission)
    // The verdict is over everything known of the user, and so evaluated and recorded in one transaction.
    let recorded = try await record(evidence, accepted, reference, for: submission, mode)
    onVerdict(recorded.entitlement)
    logger.info(
      "verdict",
      metadata: [
        "user_id": "\(submission.user)", "tier": "\(recorded.entitlement.tier)",
        "status": "\(recorded.entitlement.status.rawValue)", "reason": "\(recorded.entitlement.reason.rawValue)",
        "environment": "\(accepted.history.environment.rawValue)", "changed": .stringConvertible(recorded.changed),
        "source": "\(accepted.history.source.rawValue)", "receipt": "\(reference.name)",
      ])
    if recorded.entitlement.lacksEnd, isWorthALine.admit() {
      logger.warning(
        "Apple names no end of a subscription: if it does not renew, the catalog needs kind: non_renewing and period",
        metadata: ["product": "\(recorded.entitlement.productID?.rawValue ?? "")"])
    }
    if verdicts.isBeingWritten(submission.user) { onWait() }
    let write = await verdicts.write(
      submission.user, recorded.write, recorded.update, after: recorded.losers, logger: logger)
    return ValidatedEntitlement(
      user: submission.user, entitlement: recorded.entitlement, isFromLedger: accepted.isReused, write: write,
      evaluatedAt: accepted.evaluatedAt, ownedByOthers: recorded.ownedByOthers)
  }

  /// Resolves a submission: the receipt sent, the one stored, or a purchase by its ID.
  func reference(of submission: ReceiptSubmission) async throws(ValidationError) -> PurchaseReference {
    switch submission.proof {
    case .receipt(let text), .appTransaction(let text):
      var isReceipt = false
      if case .receipt = submission.proof { isReceipt = true }
      do throws(ValidationError) { return try await reference(toReceipt: text, isReceipt) } catch {
        guard case .clockBehind = error, await gateway.catchUp() else { throw error }
        return try await reference(toReceipt: text, isReceipt)
      }
    case .kept(let key, let kept):
      return try await reference(key.originalTransactionID, kept)
    case .originalTransactionID(let id):
      guard !id.isOfAnotherStore else { throw .unknownTransaction }
      let kept = try await consult(await ledger.receipts(mentioning: id))
      guard !kept.isEmpty else {
        guard gateway.serverAPI != nil, !id.isOfApp else { throw .unknownTransaction }
        return PurchaseReference(id: id)
      }
      // An ID proves no purchase, as anybody can guess one. It refreshes what the user owns and moves nothing.
      let owned = kept.filter { $0.owner == submission.user }
      guard let receipt = owned.first(where: { $0.environment == .production }) ?? owned.first else {
        // A user who has the purchase only by a name in a notification keeps it until somebody claims it.
        guard submission.isVouchedFor, gateway.serverAPI != nil, kept.allSatisfy(\.isOwnedByName) else {
          throw .ownedByAnotherUser
        }
        return PurchaseReference(id: id)
      }
      return try await reference(id, receipt)
    }
  }

  /// - Parameter isReceipt: whether it has to be a purchase, and no app transaction where the catalog asks for none.
  private func reference(
    toReceipt text: String, _ isReceipt: Bool
  ) async throws(ValidationError) -> PurchaseReference {
    try await LongWork.run(bytes: text.utf8.count) { () throws(ValidationError) in
      let receipt = try gateway.decode(text)
      if isReceipt, rules.catalog.originalPurchase.isEmpty, let refused = receipt.refusedAppTransaction() {
        throw .undecodableReceipt(detail: refused.detail)
      }
      return PurchaseReference(receipt: receipt, proof: try gateway.proof(of: receipt))
    }
  }

  /// Whether our own check of the signature refutes a receipt.
  func refutes(_ base64: String) -> Bool {
    guard let receipt = try? SubmittedReceipt.decode(base64) else { return true }
    return gateway.unrequiredProof(of: receipt).check == .failed
  }

  /// A known purchase with its kept receipt.
  ///
  /// The receipt was proven, or accepted by Apple, when it came; roots and policies may have changed since. The Server
  /// API needs only the ID; for verifyReceipt the receipt has to pass the check again.
  private func reference(_ id: OriginalTransactionID, _ kept: KeptReceipt) async throws(ValidationError)
    -> PurchaseReference
  {
    // The receipt of an erased user is gone: the Server API can be asked by the ID, and nobody else.
    guard !kept.isErased else {
      guard gateway.serverAPI != nil, !id.isOfApp else { throw .notAskable }
      return PurchaseReference(id: id, environment: kept.environment, bundleID: kept.bundleID)
    }
    return try await LongWork.run(bytes: kept.base64.utf8.count) { () throws(ValidationError) in
      let receipt = try gateway.decode(kept.base64)
      // The Server API does not know the app itself: its receipt is asked about as it was posted.
      guard !id.isOfApp else { return PurchaseReference(receipt: receipt, proof: try gateway.proof(of: receipt)) }
      let proof =
        gateway.serverAPI == nil
        ? try gateway.proof(of: receipt) : DeferredProof(gateway.unrequiredProof(of: receipt))
      return PurchaseReference(
        receipt: receipt, proof: proof, id: id, environment: kept.environment, bundleID: kept.bundleID)
    }
  }

  /// The answer by subscription.
  ///
  /// About an account that is gone Apple says nothing else. What ends is everything in the receipt, everything that it
  /// proved before, and the purchase that was asked for.
  func evidence(
    of accepted: AppStoreGateway.AcceptedAnswer, _ reference: PurchaseReference, for submission: ReceiptSubmission
  ) async throws(ValidationError) -> [SubscriptionEvidence] {
    let history = accepted.history
    guard history.isAccountGone, let receipt = reference.receipt else {
      var evidence = history.evidence()
      for part in unmentioned(by: history, reference) {
        if let place = evidence.firstIndex(where: { $0.key == part.key }) {
          evidence[place] = evidence[place].merging(part)
        } else {
          evidence.append(part)
        }
      }
      return evidence + (try await originalPurchase(in: accepted, reference, of: submission))
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

  /// The signed purchases that the Server API's answer leaves out, as it does with consumables, and the periods of a
  /// subscription that it does not have yet.
  private func unmentioned(by history: PurchaseHistory, _ reference: PurchaseReference) -> [SubscriptionEvidence] {
    guard history.source == .serverAPI, var proven = reference.proof.history(evaluatedAt: verdicts.now()) else {
      return []
    }
    proven.coverage = .partial(since: nil)
    let reported = Dictionary(grouping: history.purchases, by: \.originalTransactionID)
    return proven.evidence().compactMap { evidence in
      guard let rows = reported[evidence.key.originalTransactionID] else { return evidence }
      let later = evidence.parts { $0.isPeriod(boughtAfter: rows) }
      return later.purchases.isEmpty ? nil : later
    }
  }

  /// The purchase of the app itself, by an answer or by the signature.
  ///
  /// An AppTransaction names the customer's download, and belongs to one user as a purchase does. An app receipt names
  /// nobody: each user has it under an ID of their own, which is that of the first receipt that showed it. The same receipt
  /// is thus nobody else's.
  private func originalPurchase(
    in accepted: AppStoreGateway.AcceptedAnswer, _ reference: PurchaseReference, of submission: ReceiptSubmission
  ) async throws(ValidationError) -> [SubscriptionEvidence] {
    let history = accepted.history
    guard gateway.keepsOriginalPurchases, submission.isPresented, submission.user != .nobody,
      let receipt = reference.receipt,
      let original = history.originalPurchase
        ?? (history.source == .serverAPI
          ? reference.proof.history(evaluatedAt: verdicts.now())?.originalPurchase : nil)
    else { return [] }
    func key(_ id: OriginalTransactionID) -> SubscriptionKey {
      SubscriptionKey(environment: history.environment, originalTransactionID: id)
    }
    let id: OriginalTransactionID
    if let asked = submission.proof.originalTransactionID {
      guard asked.isOfApp else { return [] }
      id = asked
    } else if let named = original.appTransactionID {
      id = OriginalTransactionID(ofApp: named)
    } else {
      let own = OriginalTransactionID(ofApp: "receipt-")
      let known = try await profile(of: submission.user)?.evidence.lazy.map(\.key).first {
        $0.environment == history.environment && $0.originalTransactionID.rawValue.hasPrefix(own.rawValue)
      }
      id = known?.originalTransactionID ?? OriginalTransactionID(own.rawValue + receipt.fingerprint.hex.prefix(32))
    }
    return [original.evidence(key(id), of: accepted.bundleID, source: history.source)]
  }

  /// The text to store, for the next question to Apple or as the proof.
  private func keptReceipt(
    of accepted: AppStoreGateway.AcceptedAnswer, _ reference: PurchaseReference
  ) throws(ValidationError) -> KeptReceipt {
    let transactions = accepted.signedTransactions
    let signed =
      reference.id.flatMap { transactions[$0] } ?? transactions.min { $0.key.rawValue < $1.key.rawValue }?.value
    guard let text = reference.receipt?.base64 ?? signed else { throw .unknownTransaction }
    return KeptReceipt(base64: text, environment: accepted.history.environment, bundleID: accepted.bundleID)
  }

  /// Whether a purchase without an owner may become this user's by its ID: the caller vouches for the user, or the app
  /// named the user at the purchase.
  private func mayClaim(
    _ reference: PurchaseReference, _ evidence: [SubscriptionEvidence], _ submission: ReceiptSubmission
  ) -> Bool {
    guard reference.receipt == nil, !submission.isVouchedFor else { return true }
    // The purchase has an owner, for whom Apple is asked.
    if case .kept = submission.proof { return true }
    return evidence.contains { item in
      item.key.originalTransactionID == reference.id && item.names(submission.user)
    }
  }

  func record(
    _ evidence: [SubscriptionEvidence], _ accepted: AppStoreGateway.AcceptedAnswer, _ reference: PurchaseReference,
    for submission: ReceiptSubmission, _ mode: ValidationMode
  ) async throws(ValidationError) -> Recorded {
    guard mayClaim(reference, evidence, submission) else { throw .unknownTransaction }
    var entry = LedgerEntry(
      user: submission.user,
      evidence: evidence,
      contestedKeys: contestedKeys(evidence),
      receipt: try keptReceipt(of: accepted, reference),
      origin: origin(of: submission, mode),
      evaluatedAt: accepted.evaluatedAt,
      recordedAt: verdicts.now(),
      requestID: submission.requestID,
      rules: rules,
      approves: mode.approves)
    if case .app(let app) = reference.receipt?.content {
      (entry.receiptOctets, entry.sharedOctets) = (app.encoded, app.sharedOctets)
    } else {
      entry.sharedOctets = CompactJWS.rangeOfHeader(in: entry.receipt.base64)
    }
    entry.receiptDigest = reference.receipt?.fingerprint.digest
    // Only a receipt that verifyReceipt has answered about replaces the kept one: others cannot be sent to it.
    entry.keepsReceipts = accepted.history.source != .verifyReceipt
    entry.keysNamingOthers = Set(evidence.filter { $0.namesAnother(than: submission.user) }.map(\.key))
    entry.tokensAreUserIDs = verdicts.accountTokenIsUserID
    entry.tellsAccountTokens = verdicts.tellsAccountTokens
    entry.note = submission.note
    entry.rowsClaimedUntil = verdicts.rowsClaim
    switch try await consult(await ledger.record(entry)) {
    case .recorded(let recorded): return recorded
    case .ownedByAnotherUser: throw .ownedByAnotherUser
    case .ofUnknownOwnership: throw .ofUnknownOwnership
    case .heldBack: throw .heldBack
    }
  }

  /// An ID proves nothing: the rest of its kept receipt moves to nobody. A question about a known purchase does not
  /// present it.
  private func origin(of submission: ReceiptSubmission, _ mode: ValidationMode) -> LedgerEntry.Origin {
    guard submission.isPresented else { return .named }
    return switch (submission.proof, mode) {
    case (.receipt, .settlement(let id)), (.appTransaction, .settlement(let id)): .settlement(id, ownership)
    case (.receipt, _), (.appTransaction, _): .presented(ownership)
    case (.originalTransactionID, _): .askedByID
    case (.kept, .recheck(_, let item)): .recheck(item)
    case (.kept, _): .recheck(nil)
    }
  }

  /// The keys that decide about ownership: those with a product of the catalog, or without any all of them, as the
  /// catalog may get the product later.
  func contestedKeys(_ evidence: [SubscriptionEvidence]) -> Set<SubscriptionKey> {
    let catalogued = evidence.filter(rules.isCatalogued)
    // The app itself is not contested while it gives nothing.
    return Set((catalogued.isEmpty ? evidence.filter { !$0.key.isOfApp } : catalogued).map(\.key))
  }

  /// The user's standing after Apple was asked about everything of theirs.
  ///
  /// - Parameters:
  ///   - isFresh: whether Apple has answered about everything: the verdict is the recorded one, by Apple's clock.
  ///   - isWanting: whether an answer is missing.
  func standing(
    of user: UserID, isFresh: Bool, isWanting: Bool, logger: Logger
  ) async throws(ValidationError) -> ValidatedEntitlement {
    let profile = try await profile(of: user)
    var answer = standing(of: user, profile)
    if isFresh, let profile {
      answer.entitlement = profile.entitlement
      answer.isFromLedger = false
    } else if !isWanting {
      answer.entitlement = rules.standing(of: user, profile, at: verdicts.now())
    }
    if let profile {
      answer.write = await verdicts.write(user, profile.write, logger: logger)
        .adjusted(forShown: answer.entitlement, recorded: profile.entitlement)
    }
    return answer
  }

  /// Re-evaluates without a purchase that the operator has excluded since it counted.
  func reevaluate(_ submission: ReceiptSubmission) async throws(ValidationError) {
    guard case .kept(_, let receipt) = submission.proof else { return }
    _ = try await consult(
      await ledger.run(
        Reevaluate(
          submission.user, receipt: receipt.base64, requestID: submission.requestID, verdicts.evaluationContext)))
  }

  func knowledge(
    of receipt: SubmittedReceipt, for user: UserID
  ) async throws(ValidationError) -> ReceiptKnowledge {
    try await consult(await ledger.knowledge(of: receipt.base64, for: user))
  }

  func profile(of user: UserID) async throws(ValidationError) -> LedgerProfile? {
    try await consult(await ledger.profile(of: user))
  }
}
