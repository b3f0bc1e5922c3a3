import Entitlements
import Ledger

/// What a caller wants validated, for whom.
struct ReceiptSubmission: Sendable {
  enum Proof: Sendable {
    /// What the app sent as its receipt, not yet looked at.
    case receipt(String)
    /// A purchase by its ID: one that the service has seen before, or that Apple is to tell of.
    case originalTransactionID(OriginalTransactionID)
    /// A purchase of the user's, by the receipt that the ledger keeps for it.
    case kept(SubscriptionKey, KeptReceipt)

    /// Where the proof is no more than an ID: it moves nothing from one user to another.
    var originalTransactionID: OriginalTransactionID? {
      switch self {
      case .receipt: nil
      case .originalTransactionID(let id): id
      case .kept(let key, _): key.originalTransactionID
      }
    }
  }

  var user: UserID
  var proof: Proof
  /// Names the request in logs and in the history.
  var requestID: String
  /// What a person said who had Apple asked.
  var note: NoteID?
  /// Whether the caller vouches for the user: a purchase that nobody has, and that names nobody, becomes theirs by its ID
  /// alone. Anybody can write down an ID, so that a user cannot.
  var isVouchedFor = false
}

/// The answer to a submission.
struct ValidatedEntitlement: Sendable {
  var user: UserID
  var entitlement: Entitlement
  /// Read from the ledger: Apple was not asked, or could not be.
  var isFromLedger: Bool
  /// The receipt is recorded and waits until Apple can be asked; the entitlement is what stood before.
  var isPending = false
  /// How far the app's own row has got.
  var write: ProfileWrite
}
