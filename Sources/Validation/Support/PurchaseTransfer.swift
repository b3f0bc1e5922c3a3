import AppStore
package import Entitlements
package import Ledger
package import Logging

/// The transfer of a purchase to a user by support, from another user or from nobody. It updates the rows of both.
package struct PurchaseTransfer: Sendable {
  var validator: ReceiptValidator
  var ledger: Ledger

  private var verdicts: VerdictContext { validator.verdicts }

  /// Transfers a purchase. If it is this user's already, nothing is written.
  ///
  /// - Parameter creates: whether the user may be one who was never seen: most of those are typing errors.
  /// - Returns: the purchase as the ledger has it then; `nil` where the user was never seen.
  /// - Throws: `unknownTransaction`, or `ledgerUnavailable`.
  package func transfer(
    _ key: SubscriptionKey, to user: UserID, creates: Bool, note: Note, logger: Logger
  ) async throws(ValidationError) -> OwnedPurchase? {
    guard try await mayHave(user, creates) else { return nil }
    let transfer = TransferPurchase(
      key: key, to: user, note: note, evaluationContext: verdicts.evaluationContext,
      rowsClaimedUntil: verdicts.rowsClaim)
    let outcome = try await consult(await ledger.run(transfer))
    switch outcome {
    case .unknown: throw .unknownTransaction
    case .unchanged: break
    case .moved(let loser):
      logger.notice(
        "a purchase was transferred",
        metadata: [
          "from_user_id": "\(loser)", "user_id": "\(user)", "environment": "\(key.environment.rawValue)",
          "original_transaction_id": "\(key.originalTransactionID)",
        ])
      // The loser's row first: a unique column may allow only one row to name the purchase.
      _ = await verdicts.write(user, .waiting, after: [loser], logger: logger)
    }
    let purchases = try await consult(await ledger.ownedPurchases(key.originalTransactionID))
    guard let purchase = purchases.first(where: { $0.evidence.key.environment == key.environment }) else {
      throw .unknownTransaction
    }
    return purchase
  }

  /// Gives a purchase without an owner to a user, for whom the caller vouches.
  ///
  /// Apple is asked twice. The first answer names the purchase, so that a typing error leaves no trace; the note is
  /// durable before the second, which has all of the customer's purchases.
  ///
  /// - Parameters:
  ///   - id: the ID of any transaction.
  ///   - environment: the store; `nil`: the one that knows the ID.
  ///   - creates: whether the user may be one who was never seen.
  /// - Returns: the purchase as the ledger has it then; `nil` where the user was never seen.
  package func claim(
    _ id: OriginalTransactionID, in environment: StoreEnvironment?, for user: UserID, creates: Bool, note: Note,
    logger: Logger
  ) async throws(ValidationError) -> OwnedPurchase? {
    let end = ContinuousClock.now.advanced(by: validator.gateway.deadline)
    let id = try await purchase(of: id, in: environment, until: end, logger)
    guard try await mayHave(user, creates) else { return nil }
    var submission = ReceiptSubmission(
      user: user, proof: .originalTransactionID(id), requestID: note.requestID, isVouchedFor: true)
    submission.note = try await consult(await ledger.keepNote(note, about: user))
    _ = try await validator.validate(submission, until: end, logger: logger)
    let purchases = try await consult(await ledger.ownedPurchases(id))
    guard let purchase = purchases.first(where: { $0.owner == user }) else { throw .unknownTransaction }
    logger.notice(
      "a purchase was attached",
      metadata: [
        "user_id": "\(user)", "environment": "\(purchase.evidence.key.environment.rawValue)",
        "original_transaction_id": "\(id)",
      ])
    return purchase
  }

  private func mayHave(_ user: UserID, _ creates: Bool) async throws(ValidationError) -> Bool {
    if creates { return true }
    return try await consult(await ledger.hasSeen(user))
  }

  private func purchase(
    of id: OriginalTransactionID, in environment: StoreEnvironment?, until end: ContinuousClock.Instant,
    _ logger: Logger
  ) async throws(ValidationError) -> OriginalTransactionID {
    let gateway = validator.gateway
    guard !id.isOfAnotherStore, let serverAPI = gateway.serverAPI else { throw .unknownTransaction }
    do throws(AppStoreError) {
      let stores = environment.map { [$0] } ?? [.production, .sandbox]
      let verified = try await serverAPI.transaction(
        TransactionID(id.rawValue), bundleIDs: gateway.apps.bundleIDs, stores: stores, deadline: end)
      gateway.appStoreHealth.answered()
      return verified.payload.purchase.originalTransactionID
    } catch {
      gateway.appStoreHealth.failed(error)
      error.log(logger)
      throw ValidationError(error)
    }
  }
}
