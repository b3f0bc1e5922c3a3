import AppStore
package import Entitlements
package import Ledger

/// The use cases of SDKs' customers beside a validation.
extension ReceiptValidator {
  package func join(_ id: UserID, to user: UserID, requestID: String) async throws(LedgerError) -> JoinCustomer.Outcome
  {
    try await ledger.run(JoinCustomer(id, to: user, requestID: requestID, verdicts.evaluationContext))
  }

  /// Whether `validate` would refuse a receipt to a user as another's, by what the receipt itself says. Apple is not asked,
  /// and nothing is recorded.
  package func isAnothers(_ receipt: String, than user: UserID) async throws(ValidationError) -> Bool {
    let decoded = try gateway.decode(receipt)
    let evidence =
      gateway.unrequiredProof(of: decoded).history(evaluatedAt: verdicts.now())?.evidence()
      ?? PurchaseHistory(
        environment: .production, source: .signature, evidenceTime: verdicts.now(), evaluatedAt: verdicts.now(),
        purchases: decoded.purchases
      ).evidence()
    guard !evidence.isEmpty else { return false }
    return try await consult(
      await ledger.isAnothers(
        evidence, contested: contestedKeys(evidence), than: user, ownership: ownership, verdicts.evaluationContext))
  }

  /// The purchases that a receipt claims, unproven; none where it cannot be read.
  package func purchases(in receipt: String) -> [Purchase] { (try? SubmittedReceipt.decode(receipt))?.purchases ?? [] }
}
