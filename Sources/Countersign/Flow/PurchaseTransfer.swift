import Entitlements
import Ledger
import Logging

/// Hands a purchase from one user to another on the word of a person, and brings both rows up to date.
struct PurchaseTransfer: Sendable {
  var validator: ReceiptValidator
  var ledger: any SupportLedger

  /// The purchase after it, as the ledger has it. Where it was this user's already, nothing is written.
  /// - Throws: `unknownTransaction`, or `ledgerUnavailable`.
  func transfer(
    _ key: SubscriptionKey, to user: UserID, note: Note, logger: Logger
  ) async throws(ValidationError) -> OwnedPurchase {
    let transfer = Transfer(
      key: key, to: user, note: note, rejudgement: validator.rejudgement, rowsClaimedUntil: validator.rowsClaim)
    let outcome = try await consult { () throws(LedgerError) in try await ledger.transfer(transfer) }
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
      // Of the one who lost it first: a row may be the only one that may name the purchase.
      _ = await validator.write(user, .waiting, after: [loser], logger: logger)
    }
    let purchases = try await consult { () throws(LedgerError) in
      try await ledger.ownedPurchases(key.originalTransactionID)
    }
    guard let purchase = purchases.first(where: { $0.evidence.key == key }) else { throw .unknownTransaction }
    return purchase
  }

  private func consult<Value>(
    _ operation: () async throws(LedgerError) -> Value
  ) async throws(ValidationError) -> Value {
    do { return try await operation() } catch { throw .ledgerUnavailable(error) }
  }
}
