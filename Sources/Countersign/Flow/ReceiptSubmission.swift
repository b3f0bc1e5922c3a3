import Entitlements

/// What a caller wants validated, for whom.
struct ReceiptSubmission: Sendable {
  enum Proof: Sendable {
    /// What the app sent as its receipt, not yet looked at.
    case receipt(String)
    /// A purchase the service has seen before; its kept receipt is sent to Apple again.
    case originalTransactionID(OriginalTransactionID)

    var originalTransactionID: OriginalTransactionID? {
      guard case .originalTransactionID(let id) = self else { return nil }
      return id
    }
  }

  var user: UserID
  var proof: Proof
  /// Names the request in logs and in the history.
  var requestID: String
}

/// The answer to a submission.
struct ValidatedEntitlement: Sendable {
  var user: UserID
  var entitlement: Entitlement
  /// Read from the ledger: Apple was not asked, or could not be.
  var isFromLedger: Bool
  /// The receipt is recorded and waits until Apple can be asked; the entitlement is what stood before.
  var isPending = false
}
