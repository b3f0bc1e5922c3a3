package import Entitlements
package import Ledger

/// A request to validate: the proof, and the user it is for.
package struct ReceiptSubmission: Sendable {
  package enum Proof: Sendable {
    /// The receipt as the app sent it, not yet decoded.
    case receipt(String)
    /// A purchase by its ID: one that the service has seen before, or that Apple is to tell of.
    case originalTransactionID(OriginalTransactionID)
    /// A purchase of the user's, by the receipt that the ledger keeps for it.
    case kept(SubscriptionKey, KeptReceipt)

    /// Where the proof is no more than an ID: it moves nothing from one user to another.
    package var originalTransactionID: OriginalTransactionID? {
      switch self {
      case .receipt: nil
      case .originalTransactionID(let id): id
      case .kept(let key, _): key.originalTransactionID
      }
    }
  }

  package var user: UserID
  package var proof: Proof
  /// Names the request in logs and in the history.
  package var requestID: String
  /// The note of the person who requested the check.
  var note: NoteID?
  /// Whether the caller vouches for the user: a purchase that nobody has, and that names nobody, becomes theirs by its ID
  /// alone. Anybody can write down an ID, so that a user cannot.
  package var isVouchedFor = false

  package init(user: UserID, proof: Proof, requestID: String, note: NoteID? = nil, isVouchedFor: Bool = false) {
    self.user = user
    self.proof = proof
    self.requestID = requestID
    self.note = note
    self.isVouchedFor = isVouchedFor
  }
}

/// The answer to a submission.
package struct ValidatedEntitlement: Sendable {
  package var user: UserID
  package var entitlement: Entitlement
  /// Read from the ledger: Apple was not asked, or could not be.
  package var isFromLedger: Bool
  /// The receipt is recorded and waits until Apple can be asked; the entitlement is what stood before.
  package var isPending = false
  /// How far the app's own row has got.
  package var write: ProfileWrite
}
