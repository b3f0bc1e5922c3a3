import AppStore
import Entitlements
import Logging

import struct FoundationEssentials.Date

/// Finds out what a receipt proves, from its signature and from Apple. It records nothing.
struct ReceiptExaminer: Sendable {
  var verifier: ReceiptVerifier
  var localVerification: LocalVerificationPolicy
  var appStore: VerifyReceiptClient
  var appStoreHealth: AppStoreHealth
  /// One call to Apple for the same receipt at the same moment, however many ask: an app that posts it at every launch
  /// does so from all its users' devices at once.
  var flights = SingleFlight<ReceiptFingerprint, Result<VerifyReceiptAnswer, VerifyReceiptError>>()
  /// What Apple answered a moment ago (`policy.reuse`).
  var recent: RecentAnswers
  var bundleIDs: Set<BundleID>
  var rules: EntitlementRules
  /// How long one validation may take Apple in all, retries included.
  var deadline: Duration
  /// Our own clock.
  var now: @Sendable () -> Date

  /// What Apple says about a receipt.
  struct Word: Sendable {
    var history: PurchaseHistory
    /// Said a moment ago, to somebody else or to the same caller.
    var isReused: Bool
  }

  /// What was sent, as a receipt.
  func decode(_ text: String) throws(ValidationError) -> SubmittedReceipt {
    try decode(contents: Array(text.utf8))
  }

  /// What a file holds, as a receipt: the receipt itself, or base64 of it.
  func decode(contents: [UInt8]) throws(ValidationError) -> SubmittedReceipt {
    let receipt: SubmittedReceipt
    do throws(UndecodableReceipt) { receipt = try SubmittedReceipt.decode(contents: contents) } catch {
      switch error.kind {
      case .signedTransaction, .signedRenewalInfo, .signedAppTransaction, .signedData:
        throw .unsupportedReceipt(detail: Self.unsupported)
      default: throw .undecodableReceipt(detail: error.detail)
      }
    }
    if case .signedTransaction = receipt.content { throw .unsupportedReceipt(detail: Self.unsupported) }
    return receipt
  }

  private static let unsupported =
    "This is a StoreKit 2 signed transaction (JWS), which is not supported yet; send the app receipt, or the original "
    + "transaction ID as original_transaction_id."

  /// What our own check of the signature says. Apple has the last word unless the policy requires the proof.
  func proof(of receipt: SubmittedReceipt) throws(ValidationError) -> LocalProof {
    let proof = LocalProof(receipt, verifier: verifier, now: now())
    switch proof {
    case .verified: break
    case .refuted(.xcode):
      // No server can vouch for it, and Apple answers 21002, which reads like trouble.
      throw .notAuthentic(detail: NotAuthentic.xcode.description, appleStatus: nil)
    case .refuted(let reason):
      if localVerification == .require { throw .notAuthentic(detail: reason.description, appleStatus: nil) }
    case .unavailable:
      if localVerification == .require {
        throw .notAuthentic(
          detail: "An iOS 6-style receipt carries no certificate chain, and this service takes only what it can prove.",
          appleStatus: nil)
      }
    }
    return proof
  }

  /// Asks Apple, and checks that the answer is about our app and an environment that this user may use.
  ///
  /// - Parameter mayReuse: whether an answer of a moment ago will do.
  func ask(
    about receipt: SubmittedReceipt, _ proof: LocalProof, for user: UserID, mayReuse: Bool, logger: Logger
  ) async throws(AppStoreTrouble) -> Word {
    if mayReuse, let answer = recent[receipt.fingerprint], stillHolds(answer.history) {
      return Word(history: try accepted(answer, receipt, proof, for: user), isReused: true)
    }
    switch await flights.run(receipt.fingerprint, { await verify(receipt, proof, logger: logger) }) {
    case .success(let answer): return Word(history: try accepted(answer, receipt, proof, for: user), isReused: false)
    case .failure(let error): throw AppStoreTrouble(error)
    }
  }

  /// Whether nothing that the answer names has ended since it was given.
  private func stillHolds(_ history: PurchaseHistory) -> Bool {
    let now = now()
    let ends = history.purchases.compactMap(\.expiresDate) + history.renewals.compactMap(\.gracePeriodExpiresDate)
    return !ends.contains { history.judgedAt < $0 && $0 <= now }
  }

  private func accepted(
    _ answer: VerifyReceiptAnswer, _ receipt: SubmittedReceipt, _ proof: LocalProof, for user: UserID
  ) throws(AppStoreTrouble) -> PurchaseHistory {
    let appleStatus = answer.appleStatus
    let bundle = answer.bundleID ?? proof.bundleID ?? (answer.history.isAccountGone ? receipt.claimedBundleID : nil)
    // An answer that names no app is no verdict; only another app's is another app's.
    guard let bundle else { throw .unavailable(appleStatus: appleStatus) }
    guard bundleIDs.contains(bundle) else { throw .refused(.wrongApp(appleStatus: appleStatus)) }
    guard rules.accepts(answer.history.environment, for: user) else {
      throw .refused(.sandboxRefused(appleStatus: appleStatus))
    }
    return answer.history
  }

  private func verify(
    _ receipt: SubmittedReceipt, _ proof: LocalProof, logger: Logger
  ) async -> Result<VerifyReceiptAnswer, VerifyReceiptError> {
    do throws(VerifyReceiptError) {
      let answer = try await appStore.verify(
        receipt.base64, isVerified: proof.verified != nil, deadline: .now.advanced(by: deadline))
      appStoreHealth.answered()
      recent.keep(answer, of: receipt.fingerprint)
      return .success(answer)
    } catch {
      appStoreHealth.failed(error)
      log(error, logger)
      return .failure(error)
    }
  }

  private func log(_ error: VerifyReceiptError, _ logger: Logger) {
    let metadata: Logger.Metadata = ["apple_status": "\(error.appleStatus.map(String.init) ?? "none")"]
    switch error {
    case .sharedSecretRejected:
      logger.critical("Apple refuses our shared secret: check app_store.shared_secret", metadata: metadata)
    case .unexpectedStatus:
      logger.critical("Apple answers with a status that this version does not know", metadata: metadata)
    case .unavailable(_, let how):
      logger.warning("Apple cannot be asked", metadata: metadata.merging(["cause": "\(how)"]) { $1 })
    case .notAuthentic, .overloaded, .cancelled:
      logger.info("no verdict", metadata: metadata)
    }
  }
}
