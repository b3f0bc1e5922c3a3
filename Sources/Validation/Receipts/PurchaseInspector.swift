import AppStore
package import Entitlements
import Ledger
package import Logging
import Resilience

import struct FoundationEssentials.Date

/// Asks Apple about a purchase that no user presents for themselves.
///
/// The answer is recorded for the users who have the purchases in it. One without an owner goes to the user whom the app
/// named at the purchase, if that may be a user's ID; else to nobody, until somebody presents it.
package struct PurchaseInspector: Sendable {
  let validator: ReceiptValidator
  let ledger: Ledger

  private var gateway: AppStoreGateway { validator.gateway }

  /// The transaction in a JWS of StoreKit 2, unproven.
  /// - Throws: `unsupportedReceipt` for a receipt, and for JSON, which a transaction becomes when an app decodes it;
  ///   `unreadableSignedData` and `undecodableReceipt` for anything else.
  package func transaction(in jws: String) throws(ValidationError) -> Purchase {
    let receipt: SubmittedReceipt
    do throws(UndecodableReceipt) { receipt = try SubmittedReceipt.decode(jws) } catch {
      throw error.kind == .json ? .unsupportedReceipt(detail: error.detail) : gateway.refusal(of: jws, error)
    }
    guard case .signedTransaction(let transaction) = receipt.content else {
      throw .unsupportedReceipt(detail: "This is a receipt, and no signed transaction (JWS) of StoreKit 2.")
    }
    return transaction.purchase
  }

  /// Refuses a signed transaction without asking Apple, as a validation of it would.
  package func requireProof(of jws: String) async throws(ValidationError) {
    _ = try await validator.reference(of: ReceiptSubmission(user: .nobody, proof: .receipt(jws), requestID: ""))
  }

  /// The user whom the app named at a purchase; `nil` where that is not said, or says no user's ID.
  package func userNamed(by purchase: Purchase) async throws(ValidationError) -> UserID? {
    guard purchase.ownership == .purchased, let token = purchase.appAccountToken, let user = UserID(valid: token),
      user.accountToken != nil
    else { return nil }
    if validator.verdicts.accountTokenIsUserID { return user }
    return try await consult(await ledger.isKnown(user)) ? user : nil
  }

  /// The evidence on the purchases in a receipt or a signed transaction that nobody presents for themselves.
  package func inspect(_ submission: ReceiptSubmission, logger: Logger) async throws(ValidationError)
    -> [SubscriptionEvidence]
  {
    try await ask(submission, .decoded, logger: logger).evidence
  }

  /// verifyReceipt's own answer about a receipt, byte for byte.
  ///
  /// - Parameter excludesOldTransactions: whether Apple leaves out all but the last transaction of each subscription.
  package func verifyReceiptAnswer(
    to submission: ReceiptSubmission, excludesOldTransactions: Bool, logger: Logger
  ) async throws(ValidationError) -> [UInt8] {
    let detail = VerifyReceiptDetail.whole(excludesOldTransactions: excludesOldTransactions)
    guard let bytes = try await ask(submission, detail, logger: logger).answer.bytes else {
      throw .undecodableReceipt(detail: "verifyReceipt takes receipts only, and this is none.")
    }
    return bytes
  }

  private func ask(
    _ submission: ReceiptSubmission, _ detail: VerifyReceiptDetail, logger: Logger
  ) async throws(ValidationError) -> (answer: AppStoreGateway.AcceptedAnswer, evidence: [SubscriptionEvidence]) {
    let reference = try await validator.reference(of: submission)
    try gateway.requireApp(submission.app, of: reference.receipt)
    if detail != .decoded, reference.receipt?.isSignedData == true {
      throw .undecodableReceipt(detail: "This is signed data (JWS) of StoreKit 2 and no receipt.")
    }
    let accepted = try await gateway.ask(
      about: reference, for: .nobody, mayReuse: true, detail: detail, logger: logger)
    let evidence = try await validator.evidence(of: accepted, reference, for: submission)
    try await record(evidence, accepted, reference, submission, logger: logger)
    return (accepted, evidence)
  }

  /// Records an answer for each user who has a part of it.
  private func record(
    _ evidence: [SubscriptionEvidence], _ accepted: AppStoreGateway.AcceptedAnswer, _ reference: PurchaseReference,
    _ submission: ReceiptSubmission,
    logger: Logger
  ) async throws(ValidationError) {
    var keys: [UserID: Set<SubscriptionKey>] = [:]
    for item in evidence.prefix(Self.limit) {
      guard let user = try await user(of: item), validator.verdicts.rules.accepts(item.key.environment, for: user)
      else {
        continue
      }
      keys[user, default: []].insert(item.key)
    }
    for (user, keys) in keys.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
      var submission = submission
      submission.user = user
      submission.isPresented = false
      let evidence = try await validator.evidence(of: accepted, reference, for: submission)
        .filter { keys.contains($0.key) }
      do throws(ValidationError) {
        let recorded = try await validator.record(evidence, accepted, reference, for: submission, .request)
        validator.onVerdict(recorded.entitlement)
        _ = await validator.verdicts.write(
          user, recorded.write, recorded.update, after: recorded.losers, logger: logger)
      } catch {
        // The purchase has become another user's since it was looked up, or is nobody's.
        switch error {
        case .ownedByAnotherUser, .ofUnknownOwnership: continue
        default: throw error
        }
      }
    }
  }

  /// The most purchases of one answer that are recorded: a customer has a few.
  private static let limit = 200

  /// The owner of a purchase, or the user whom it names.
  private func user(of evidence: SubscriptionEvidence) async throws(ValidationError) -> UserID? {
    let id = evidence.key.originalTransactionID
    let owned = try await consult(await ledger.ownedPurchases(id))
    if let owner = owned.first(where: { $0.evidence.key.environment == evidence.key.environment })?.owner {
      return owner
    }
    let newest = evidence.purchases.filter { $0.ownership == .purchased && $0.appAccountToken != nil }
      .max { ($0.purchaseDate ?? .distantPast) < ($1.purchaseDate ?? .distantPast) }
    guard let newest else { return nil }
    return try await userNamed(by: newest)
  }
}
