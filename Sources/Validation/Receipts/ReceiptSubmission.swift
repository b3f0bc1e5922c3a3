package import Entitlements
package import Ledger

package import struct FoundationEssentials.Date

package struct ReceiptSubmission: Sendable {
  package enum Proof: Sendable {
    /// The receipt as the app sent it, not yet decoded.
    case receipt(String)
    /// A purchase by its ID, which the ledger or Apple knows.
    case originalTransactionID(OriginalTransactionID)
    /// A purchase of the user, by the receipt in the ledger.
    case kept(SubscriptionKey, KeptReceipt)
    /// An AppTransaction, from a client that wants to know what it says of the app, whether or not the catalog gives
    /// something for it.
    case appTransaction(String)

    /// The ID, if it is the only proof: it moves nothing from one user to another.
    var originalTransactionID: OriginalTransactionID? {
      switch self {
      case .receipt, .appTransaction: nil
      case .originalTransactionID(let id): id
      case .kept(let key, _): key.originalTransactionID
      }
    }
  }

  package var user: UserID
  package var proof: Proof
  /// The ID of the request in logs and in the history.
  var requestID: String
  /// The note of the person who requested the check.
  var note: NoteID?
  /// Whether the caller vouches for the user: a purchase without an owner, and made for nobody by name, then becomes
  /// theirs by its ID alone. A user cannot do so, as anybody can write down an ID.
  var isVouchedFor = false
  /// The app whose public key the caller shows; `nil` for other callers.
  var app: BundleID?
  /// The transaction that the caller wants to finish.
  package var transactionID: TransactionID?
  /// Whether the user presents the purchase. If not, it is theirs by what is known or by name, and moves from nobody.
  var isPresented = true

  package init(
    user: UserID, proof: Proof, requestID: String, note: NoteID? = nil, isVouchedFor: Bool = false,
    app: BundleID? = nil
  ) {
    self.app = app
    self.user = user
    self.proof = proof
    self.requestID = requestID
    self.note = note
    self.isVouchedFor = isVouchedFor
  }
}

extension ReceiptSubmission {
  /// Whether the transaction that it names is among purchases, as such or as the first of a subscription, whose later
  /// ones may stand alone in an answer; `nil` if it names none.
  func finds(in purchases: some Sequence<Purchase>) -> Bool? {
    transactionID.map { id in
      purchases.contains { $0.transactionID == id || $0.originalTransactionID.rawValue == id.rawValue }
    }
  }
}

package struct ValidatedEntitlement: Sendable {
  package var user: UserID
  package var entitlement: Entitlement
  /// Whether the entitlement is from the ledger: Apple was not asked, or could not be.
  package var isFromLedger: Bool
  /// Whether the receipt is recorded and waits until Apple can be asked; the entitlement is the one before it.
  package var isPending = false
  /// The state of the app's own row.
  package var write: ProfileWrite
  /// The time of Apple's answer by Apple's clock; `nil` where it was not asked, or could not be.
  package var evaluatedAt: Date?
  /// Whether the transaction that the submission names stands in the receipt or in Apple's answer; `nil` where it names
  /// none.
  package var isTransactionFound: Bool?
  /// Whether that transaction was made for another user and is nobody's yet: their app has to finish it.
  package var isAnothersTransaction = false
  /// See `Recorded`.
  var ownedByOthers: Set<SubscriptionKey> = []
}
