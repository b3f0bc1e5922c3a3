package import Entitlements

/// Reevaluates a user over all evidence without an answer from Apple: after a change of the rules, or after an outage in
/// which Apple could not be asked. A user without a verdict is left without one.
package struct Reevaluate: LedgerOperation {
  package var user: UserID
  /// The receipt that led to this, for the history; `nil`: the one behind the recorded verdict.
  package var receipt: String?
  package var requestID: String
  package var evaluationContext: EvaluationContext
  package var withholds: Withholding
  package var approves: Approval

  package init(
    _ user: UserID, receipt: String? = nil, requestID: String, _ evaluationContext: EvaluationContext,
    withholds: @escaping Withholding = { _, _, _, _, _ in false }, approves: @escaping Approval = { _, _ in true }
  ) {
    self.user = user
    self.receipt = receipt
    self.requestID = requestID
    self.evaluationContext = evaluationContext
    self.withholds = withholds
    self.approves = ApprovalCache.remembering(approves)
  }

  package func run(_ tables: LedgerTables) throws -> ReevaluationOutcome {
    guard var account = try tables.accounts.account(of: user), account.verdict != nil else { return .unchanged }
    let digest = try receipt.map(ReceiptDigest.init(ofReceipt:)) ?? tables.accounts.newestDigest(of: account)
    return try tables.writer(evaluationContext, requestID: requestID, digest: digest)
      .reevaluateIfChanged(&account, withholds: withholds, approves: approves)
  }
}
