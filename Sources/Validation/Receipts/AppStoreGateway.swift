package import AppStore
package import Entitlements
package import Logging
import Resilience

package import struct FoundationEssentials.Date

/// Finds out what a receipt or a signed transaction proves, from its signature and from Apple. It records nothing.
package struct AppStoreGateway: Sendable {
  package var verifier: ReceiptVerifier
  package var signedData: SignedDataVerifier
  package var localVerification: LocalVerificationPolicy
  /// `nil` where there is no shared secret.
  package var verifyReceipt: VerifyReceiptClient?
  /// `nil` where no key is configured.
  package var serverAPI: ServerAPIClient?
  package var appStoreHealth: AppStoreHealth
  /// One call to Apple about the same thing at the same moment, however many ask: an app that posts its receipt at every
  /// launch does so from all its users' devices at once.
  var flights = SingleFlight<PurchaseReference.Identity, Result<AppleAnswer, AppStoreError>>()
  /// Apple's answers of the last moments (`policy.reuse`).
  package var recent: RecentAnswers
  /// Our apps, in the order in which they are tried where a purchase may be of any.
  package var bundleIDs: [BundleID]
  /// Apps' numbers that answers of production's may name; any when empty.
  package var appAppleIDs: Set<Int64> = []
  package var rules: EntitlementRules
  /// How long one validation may take Apple in all, retries included.
  package var deadline: Duration
  /// Our own clock.
  package var now: @Sendable () -> Date

  package init(
    verifier: ReceiptVerifier, signedData: SignedDataVerifier, localVerification: LocalVerificationPolicy,
    verifyReceipt: VerifyReceiptClient? = nil, serverAPI: ServerAPIClient? = nil, appStoreHealth: AppStoreHealth,
    recent: RecentAnswers, bundleIDs: [BundleID], appAppleIDs: Set<Int64> = [], rules: EntitlementRules,
    deadline: Duration, now: @escaping @Sendable () -> Date
  ) {
    self.verifier = verifier
    self.signedData = signedData
    self.localVerification = localVerification
    self.verifyReceipt = verifyReceipt
    self.serverAPI = serverAPI
    self.appStoreHealth = appStoreHealth
    self.recent = recent
    self.bundleIDs = bundleIDs
    self.appAppleIDs = appAppleIDs
    self.rules = rules
    self.deadline = deadline
    self.now = now
  }

  /// An answer from Apple about one of our apps, for a user who may use its store.
  package struct AcceptedAnswer: Sendable {
    package var history: PurchaseHistory
    var bundleID: BundleID
    package var source: PurchaseReference.Source
    var proofs: [OriginalTransactionID: String]
    /// Said a moment ago, to somebody else or to the same caller.
    var isReused: Bool
  }

  /// Decodes a submitted text, as a receipt or a signed transaction.
  package func decode(_ text: String) throws(ValidationError) -> SubmittedReceipt {
    do throws(UndecodableReceipt) { return try SubmittedReceipt.decode(text) } catch {
      throw .undecodableReceipt(detail: error.detail)
    }
  }

  /// Decodes a file, as a receipt or a signed transaction: raw, or in base64.
  package func decode(contents: [UInt8]) throws(ValidationError) -> SubmittedReceipt {
    do throws(UndecodableReceipt) { return try SubmittedReceipt.decode(contents: contents) } catch {
      throw .undecodableReceipt(detail: error.detail)
    }
  }

  /// What our own check of the signature says. Apple has the last word on an app receipt, unless the policy requires the
  /// proof or there is no shared secret to ask with; a signed transaction is proven here or nowhere.
  package func proof(of receipt: SubmittedReceipt) throws(ValidationError) -> LocalProof {
    let proof = unrequiredProof(of: receipt)
    let isRequired = localVerification == .require || verifyReceipt == nil
    switch (proof, receipt.content) {
    case (.signedTransaction(let transaction), _) where transaction.environment == nil && serverAPI == nil:
      throw .unsupportedReceipt(
        detail: "Apple signed this transaction without the name of a store that is known here, and only the App Store "
          + "Server API can tell which store it is of (app_store.server_api).")
    case (.verified, _), (.signedTransaction, _): break
    case (.refuted(.xcode), _):
      // No server can vouch for it, and Apple answers 21002, which reads like trouble.
      throw .notAuthentic(detail: NotAuthentic.xcode.description, appleStatus: nil)
    case (.refuted(.createdInFuture), .signedTransaction):
      // The signature holds, so that it is not the customer whose clock is wrong.
      throw .clockBehind
    case (.refuted(let reason), .signedTransaction):
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
    return proof
  }

  /// The result of our own check of the signature, without its consequences.
  func unrequiredProof(of receipt: SubmittedReceipt) -> LocalProof {
    LocalProof(receipt, verifier: verifier, signedData: signedData, now: now())
  }

  /// Asks Apple, and checks that the answer is about our app and an environment that this user may use.
  ///
  /// - Parameters:
  ///   - mayReuse: whether an answer of a moment ago will do.
  ///   - retriesTrouble: whether a retry is worth what all callers have of them.
  package func ask(
    about reference: PurchaseReference, for user: UserID, mayReuse: Bool, retriesTrouble: Bool = true, logger: Logger
  ) async throws(AppStoreTrouble) -> AcceptedAnswer {
    let sources = reference.sources(hasVerifyReceipt: verifyReceipt != nil, hasServerAPI: serverAPI != nil)
    var failure: AppStoreError = .noSource
    for source in sources {
      if source == .signature {
        guard var history = reference.proof.history(evaluatedAt: now()) else { continue }
        history.coverage = .partial(since: nil)
        return try accepted(AppleAnswer(history: history), reference, source, isReused: false, for: user)
      }
      // An app receipt without a purchase names nobody whom the Server API could be asked about.
      guard let identity = reference.identity(for: source), source != .serverAPI || reference.askedPurchase != nil
      else {
        continue
      }
      if mayReuse, let answer = recent[identity], stillHolds(answer.history) {
        return try accepted(answer, reference, source, isReused: true, for: user)
      }
      let question = Question(reference: reference, user: user, retriesTrouble: retriesTrouble)
      switch await flights.run(identity, { await ask(source, question, identity, logger: logger) }) {
      case .success(let answer): return try accepted(answer, reference, source, isReused: false, for: user)
      case .failure(let error):
        failure = failure.outweighed(by: error)
        guard error.mayAskElsewhere(reference) else { throw AppStoreTrouble(failure) }
      }
    }
    throw AppStoreTrouble(failure)
  }

  /// Whether nothing that the answer names has ended since it was given.
  private func stillHolds(_ history: PurchaseHistory) -> Bool {
    let now = now()
    let ends = history.purchases.compactMap(\.expiresDate) + history.renewals.compactMap(\.gracePeriodExpiresDate)
    return !ends.contains { history.evaluatedAt < $0 && $0 <= now }
  }

  private func accepted(
    _ answer: AppleAnswer, _ reference: PurchaseReference, _ source: PurchaseReference.Source, isReused: Bool,
    for user: UserID
  ) throws(AppStoreTrouble) -> AcceptedAnswer {
    let appleStatus = answer.appleStatus
    let claimed = answer.history.isAccountGone ? reference.receipt?.claimedBundleID : nil
    // An answer that names no app is no verdict; only another app's is another app's.
    guard let bundle = answer.bundleID ?? reference.proof.bundleID ?? claimed else {
      throw .unavailable(.init(appleStatus: appleStatus))
    }
    guard bundleIDs.contains(bundle) else { throw .refused(.wrongApp(appleStatus: appleStatus)) }
    if answer.history.environment == .production, !appAppleIDs.isEmpty, let number = answer.appAppleID,
      !appAppleIDs.contains(number)
    {
      throw .refused(.wrongApp(appleStatus: appleStatus))
    }
    guard rules.accepts(answer.history.environment, for: user) else {
      throw .refused(.sandboxRefused(appleStatus: appleStatus))
    }
    return AcceptedAnswer(
      history: answer.history, bundleID: bundle, source: source, proofs: answer.proofs, isReused: isReused)
  }

  private struct Question: Sendable {
    var reference: PurchaseReference
    /// On whose behalf; of several who ask at the same moment, the first.
    var user: UserID
    var retriesTrouble: Bool
  }

  private func ask(
    _ source: PurchaseReference.Source, _ question: Question, _ identity: PurchaseReference.Identity, logger: Logger
  ) async -> Result<AppleAnswer, AppStoreError> {
    do throws(AppStoreError) {
      let answer = try await answer(of: source, question)
      appStoreHealth.answered()
      recent.keep(answer, of: identity)
      return .success(answer)
    } catch {
      appStoreHealth.failed(error)
      error.log(logger)
      return .failure(error)
    }
  }

  private func answer(
    of source: PurchaseReference.Source, _ question: Question
  ) async throws(AppStoreError) -> AppleAnswer {
    let reference = question.reference
    let deadline = ContinuousClock.now.advanced(by: deadline)
    switch source {
    case .verifyReceipt:
      guard let verifyReceipt, let receipt = reference.receipt else { throw .noSource }
      do throws(VerifyReceiptError) {
        return AppleAnswer(
          try await verifyReceipt.verify(
            receipt.base64, check: reference.proof.check, of: question.user, retriesTrouble: question.retriesTrouble,
            deadline: deadline))
      } catch { throw .verifyReceipt(error) }
    case .serverAPI:
      guard let serverAPI, let id = reference.askedPurchase else { throw .noSource }
      do throws(ServerAPIError) {
        return AppleAnswer(
          try await serverAPI.history(
            of: id, bundleIDs: apps(of: reference), stores: stores(of: reference),
            includesOneTimePurchases: rules.catalog.sellsLifetime, retriesTrouble: question.retriesTrouble,
            deadline: deadline))
      } catch { throw .serverAPI(error) }
    case .signature: throw .noSource
    }
  }

  private func apps(of reference: PurchaseReference) -> [BundleID] {
    guard let known = reference.proof.bundleID ?? reference.bundleID, bundleIDs.contains(known) else {
      return bundleIDs
    }
    return [known]
  }

  private func stores(of reference: PurchaseReference) -> [StoreEnvironment] {
    let known = reference.proof.history(evaluatedAt: now())?.environment ?? reference.environment
    return known.map { [$0] } ?? [.production, .sandbox]
  }
}

extension Catalog {
  /// Whether there is anything that is bought once and for ever.
  fileprivate var sellsLifetime: Bool { products.values.contains { $0.kind == .lifetime } }
}
