package import AppStore
package import Entitlements
package import Logging
import Resilience
package import struct FoundationEssentials.Date

/// The gateway to Apple: finds out what a receipt or a signed transaction proves, by its signature and by Apple's
/// answer. It records nothing.
package final class AppStoreGateway: Sendable {
  let verifier: ReceiptVerifier
  let signedData: SignedDataVerifier
  let localVerification: LocalVerificationPolicy
  /// `nil` without a shared secret.
  let verifyReceipt: VerifyReceiptClient?
  /// `nil` without a key.
  let serverAPI: ServerAPIClient?
  let appStoreHealth: AppStoreHealth
  /// Calls in flight. Concurrent questions about the same thing share one: an app that posts its receipt at every
  /// launch does so from many devices at once.
  let flights = SingleFlight<PurchaseReference.Identity, Result<AppStoreAnswer, AppStoreError>>()
  /// Apple's recent answers (`policy.reuse`).
  let recent: RecentAnswers
  let apps: ServedApps
  package let rules: EntitlementRules
  /// Whether what is said of the app itself is recorded: the catalog gives something for it, or a dialect tells it.
  let keepsOriginalPurchases: Bool
  /// The time that one validation may take Apple, with retries.
  let deadline: Duration
  /// Our own clock.
  package let now: @Sendable () -> Date
  /// Sets our clock by a simulated store's, and tells whether that answered; `false` where the store is Apple's.
  let catchUp: @Sendable () async -> Bool

  package init(
    verifier: ReceiptVerifier, signedData: SignedDataVerifier, localVerification: LocalVerificationPolicy,
    verifyReceipt: VerifyReceiptClient? = nil, serverAPI: ServerAPIClient? = nil, appStoreHealth: AppStoreHealth,
    recent: RecentAnswers, apps: ServedApps, rules: EntitlementRules, keepsOriginalPurchases: Bool = false,
    deadline: Duration, now: @escaping @Sendable () -> Date,
    catchUp: @escaping @Sendable () async -> Bool = { false }
  ) {
    self.verifier = verifier
    self.signedData = signedData
    self.localVerification = localVerification
    self.verifyReceipt = verifyReceipt
    self.serverAPI = serverAPI
    self.appStoreHealth = appStoreHealth
    self.recent = recent
    self.apps = apps
    self.rules = rules
    self.keepsOriginalPurchases = keepsOriginalPurchases || !rules.catalog.originalPurchase.isEmpty
    self.deadline = deadline
    self.now = now
    self.catchUp = catchUp
  }

  /// An answer about one of our apps, for a user who may use its store.
  package struct AcceptedAnswer: Sendable {
    package var history: PurchaseHistory
    /// See `AppStoreAnswer.receiptPurchases`.
    var receiptPurchases: [Purchase] = []
    var bundleID: BundleID
    var signedTransactions: [OriginalTransactionID: String]
    /// Whether Apple gave it to an earlier request.
    var isReused: Bool
    /// The moment to evaluate at. A signature shows the state when it was made but is presented now; an answer shows the
    /// state at its own time.
    package var evaluatedAt: Date
    /// verifyReceipt's answer as Apple sent it, where it was asked for.
    var bytes: [UInt8]?
  }

  /// Decodes a submitted text, as a receipt or a signed transaction.
  package func decode(_ text: String) throws(ValidationError) -> SubmittedReceipt {
    do throws(UndecodableReceipt) { return try SubmittedReceipt.decode(text) } catch { throw refusal(of: text, error) }
  }

  /// The reason for the sender of a text that cannot be decoded.
  func refusal(of text: String, _ error: UndecodableReceipt) -> ValidationError {
    let isSignedByApple =
      switch error.kind {
      case .signedData: signedData.hasSigned(unreadable: text, now: now())
      case .malformed: verifier.hasSigned(unreadable: text, now: now())
      default: false
      }
    return isSignedByApple ? .unreadableSignedData(detail: error.detail) : .undecodableReceipt(detail: error.detail)
  }

  /// Decodes a file, as a receipt or a signed transaction: raw, or in base64.
  package func decode(contents: [UInt8]) throws(ValidationError) -> SubmittedReceipt {
    do throws(UndecodableReceipt) { return try SubmittedReceipt.decode(contents: contents) } catch {
      throw .undecodableReceipt(detail: error.detail)
    }
  }

  /// Refuses a purchase of another of our apps than the one whose key the caller shows, by what it says itself.
  func requireApp(_ app: BundleID?, of receipt: SubmittedReceipt?) throws(ValidationError) {
    guard let app, let claimed = receipt?.claimedBundleID, claimed != app, apps.contains(claimed) else { return }
    throw .keyOfAnotherApp
  }

  /// Checks the signature here. Apple has the last word on an app receipt, unless the policy requires the proof or
  /// there is no shared secret; a signed transaction is proven here or nowhere.
  ///
  /// Where Apple has the last word, the check is put off: its result only tells what trouble with Apple means. A first
  /// receipt of its frame is checked all the same, so that the frame is known.
  package func proof(of receipt: SubmittedReceipt) throws(ValidationError) -> DeferredProof {
    if localVerification == .advise, verifyReceipt != nil, case .app(let app) = receipt.content,
      verifier.knowsFrame(of: app)
    {
      let now = now()
      return DeferredProof { [verifier, signedData] in
        LocalProof(receipt, verifier: verifier, signedData: signedData, now: now)
      }
    }
    let proof = unrequiredProof(of: receipt)
    let isRequired = localVerification == .require || verifyReceipt == nil
    switch (proof, receipt.content) {
    case (.signedTransaction(let transaction), _) where transaction.environment == nil && serverAPI == nil:
      throw .unsupportedReceipt(
        detail: "Apple signed this transaction without the name of a store that is known here, and only the App Store "
          + "Server API can tell which store it is of (app_store.server_api).")
    case (.appTransaction(let transaction), _) where transaction.environment == nil:
      throw .unsupportedReceipt(
        detail: "Apple signed this app transaction without the name of a store that is known here.")
    case (.verified, _), (.signedTransaction, _), (.appTransaction, _): break
    case (.refuted(.xcode), _):
      // Only Xcode knows it: Apple answers 21002, which reads like trouble.
      throw .notAuthentic(detail: NotAuthentic.xcode.description, appleStatus: nil)
    case (.refuted(.createdInFuture), .signedTransaction), (.refuted(.createdInFuture), .appTransaction):
      // The signature is valid, so the wrong clock is ours and not the customer's.
      throw .clockBehind
    case (.refuted(let reason), .signedTransaction), (.refuted(let reason), .appTransaction):
      throw .notAuthentic(detail: reason.description, appleStatus: nil)
    case (.refuted(let reason), .app), (.refuted(let reason), .transaction):
      if isRequired { throw .notAuthentic(detail: reason.description, appleStatus: nil) }
    case (.unavailable, _):
      if localVerification == .require {
        throw .notAuthentic(
          detail: "An iOS 6-style receipt carries no certificate chain, and this service takes only what it can prove.",
          appleStatus: nil)
      }
      if verifyReceipt == nil {
        throw .unsupportedReceipt(
          detail:
            "Only verifyReceipt can tell about an iOS 6-style receipt, and this service does not ask it; send the "
            + "app receipt or a signed transaction.")
      }
    }
    return DeferredProof(proof)
  }

  /// The result of our own check of the signature, without its consequences.
  func unrequiredProof(of receipt: SubmittedReceipt) -> LocalProof {
    LocalProof(receipt, verifier: verifier, signedData: signedData, now: now())
  }

  /// Asks Apple, and checks that the answer is about our app and an environment that this user may use.
  ///
  /// - Parameters:
  ///   - mayReuse: whether an answer of the last moments will do.
  ///   - retriesTrouble: whether retries may use the budget that all callers share.
  ///   - detail: where it is not `decoded`, verifyReceipt alone is asked, and now.
  ///   - end: the end of Apple's time; `nil`: `deadline` from now, for each source.
  package func ask(
    about reference: PurchaseReference, for user: UserID, mayReuse: Bool, retriesTrouble: Bool = true,
    detail: VerifyReceiptDetail = .decoded, until end: ContinuousClock.Instant? = nil, logger: Logger
  ) async throws(ValidationError) -> AcceptedAnswer {
    var failure: AppStoreError?
    for source in reference.sources(hasVerifyReceipt: verifyReceipt != nil, hasServerAPI: serverAPI != nil) {
      guard detail == .decoded || source == .verifyReceipt else { continue }
      // The Server API answers about a customer, who may have purchases in our apps beside this one.
      if source == .serverAPI, let proven = reference.proof.bundleID, !apps.contains(proven) {
        throw .wrongApp(appleStatus: nil)
      }
      if source == .signature {
        guard let answer = signedAnswer(of: reference) else { continue }
        return try accepted(answer, reference, isReused: false, for: user)
      }
      guard let identity = reference.identity(for: source, detail),
        let question = question(to: source, about: reference, for: user, retriesTrouble: retriesTrouble, detail: detail)
      else { continue }
      if mayReuse, detail == .decoded, let answer = recentAnswer(identity) {
        return try accepted(answer, reference, isReused: true, for: user)
      }
      let outcome = await flights.run(identity) { [self] in
        await answer(to: question, identity, until: end, logger: logger)
      }
      switch outcome {
      case .success(let answer): return try accepted(answer, reference, isReused: false, for: user)
      case .failure(let error):
        failure = error
        guard error.mayAskElsewhere(reference) else { throw ValidationError(error) }
      }
    }
    throw failure.map { ValidationError($0) } ?? .notAskable
  }

  // Not inlined into `ask`: a request holds its memory while it waits for Apple, 2.8 KB, and 9.0 with all of them.

  /// The answer that a transaction's signature gives; `nil` where it is not proven.
  @inline(never)
  private func signedAnswer(of reference: PurchaseReference) -> AppStoreAnswer? {
    guard var history = reference.proof.history(evaluatedAt: now()) else { return nil }
    history.coverage = .partial(since: nil)
    return AppStoreAnswer(history: history)
  }

  /// The question about a purchase; `nil` where this source cannot be asked about it.
  @inline(never)
  private func question(
    to source: PurchaseReference.Source, about reference: PurchaseReference, for user: UserID, retriesTrouble: Bool,
    detail: VerifyReceiptDetail
  ) -> Question? {
    switch source {
    case .signature: return nil
    case .verifyReceipt:
      guard let verifyReceipt, let receipt = reference.receipt else { return nil }
      return { deadline throws(AppStoreError) in
        try await verifyReceipt.verify(
          receipt.base64, check: reference.proof.check, of: user, retriesTrouble: retriesTrouble, detail: detail,
          deadline: deadline)
      }
    case .serverAPI:
      // An app receipt without a purchase gives no transaction ID to ask the Server API about.
      guard let serverAPI, let id = reference.askedPurchase else { return nil }
      return { [self] deadline throws(AppStoreError) in
        try await serverAPI.history(
          of: id, bundleIDs: bundleIDs(of: reference), stores: stores(of: reference),
          includesOneTimePurchases: rules.catalog.products.values.contains {
            $0.kind == .lifetime || $0.kind == .nonRenewing
          }, retriesTrouble: retriesTrouble, deadline: deadline)
      }
    }
  }

  /// A call to Apple, given its deadline. Of concurrent users with the same question, the first one's call is made.
  private typealias Question = @Sendable (ContinuousClock.Instant) async throws(AppStoreError) -> AppStoreAnswer

  private func answer(
    to question: Question, _ identity: PurchaseReference.Identity, until end: ContinuousClock.Instant?, logger: Logger
  ) async -> Result<AppStoreAnswer, AppStoreError> {
    do throws(AppStoreError) {
      let answer = try await question(end ?? ContinuousClock.now.advanced(by: deadline))
      appStoreHealth.answered()
      if answer.bytes == nil { recent.keep(answer, of: identity) }
      return .success(answer)
    } catch {
      appStoreHealth.failed(error)
      error.log(logger)
      return .failure(error)
    }
  }

  /// An answer of the last moments, unless a period in it has ended since.
  @inline(never)
  private func recentAnswer(_ identity: PurchaseReference.Identity) -> AppStoreAnswer? {
    guard let answer = recent[identity] else { return nil }
    let (history, now) = (answer.history, now())
    let ends = history.purchases.compactMap(\.expiresDate) + history.renewals.compactMap(\.gracePeriodExpiresDate)
    return ends.contains { history.evaluatedAt < $0 && $0 <= now } ? nil : answer
  }

  @inline(never)
  private func accepted(
    _ answer: AppStoreAnswer, _ reference: PurchaseReference, isReused: Bool, for user: UserID
  ) throws(ValidationError) -> AcceptedAnswer {
    let (history, appleStatus) = (answer.history, answer.appleStatus)
    let claimed = history.isAccountGone ? reference.receipt?.claimedBundleID : nil
    // An answer without an app is no verdict.
    guard let bundle = answer.bundleID ?? reference.proof.bundleID ?? claimed else {
      throw .appStoreUnavailable(
        .unavailable(appleStatus: appleStatus?.rawValue, .malformedAnswer("it does not name the app")))
    }
    guard apps.contains(bundle), apps.mayContain(appAppleID: answer.appAppleID, in: history.environment) else {
      throw .wrongApp(appleStatus: appleStatus)
    }
    guard rules.accepts(history.environment, for: user) else { throw .sandboxRefused(appleStatus: appleStatus) }
    return AcceptedAnswer(
      history: history, receiptPurchases: answer.receiptPurchases, bundleID: bundle,
      signedTransactions: answer.signedTransactions, isReused: isReused,
      evaluatedAt: history.source == .signature ? max(history.evaluatedAt, now()) : history.evaluatedAt,
      bytes: answer.bytes)
  }

  private func bundleIDs(of reference: PurchaseReference) -> [BundleID] {
    guard let known = reference.proof.bundleID ?? reference.bundleID, apps.contains(known) else {
      return apps.bundleIDs
    }
    return [known]
  }

  private func stores(of reference: PurchaseReference) -> [StoreEnvironment] {
    let known = reference.proof.history(evaluatedAt: now())?.environment ?? reference.environment
    return known.map { [$0] } ?? [.production, .sandbox]
  }
}

/// The consequence of our own check of the signature (`policy.local_verification`).
package enum LocalVerificationPolicy: String, Hashable, Sendable, CaseIterable {
  /// Apple has the last word.
  case advise
  /// A submission that cannot be proven here is refused.
  case require
}
