package import Cryptography
package import Entitlements
package import struct FoundationEssentials.Date

/// The rule for a purchase that a second user presents (`policy.ownership`).
package enum OwnershipPolicy: String, Hashable, Sendable, CaseIterable {
  /// The first user keeps the purchase; the second is refused.
  case keep
  /// The purchase moves to the user who presented it last.
  case transfer
  /// The purchase moves to the second user if it granted the first nothing, by the ledger's evidence before this
  /// answer.
  case transferIfInactive = "transfer_if_inactive"
}

/// One answer from Apple, ready to be recorded.
package struct LedgerEntry: Sendable {
  /// The reason for which Apple was asked, or told us. Only a user with proof gets another user's purchase.
  package enum Origin: Hashable, Sendable {
    /// The user presented proof.
    case presented(OwnershipPolicy)
    /// The user presented proof while Apple could not be asked: the queued receipt is settled.
    case settlement(Int64, OwnershipPolicy)
    /// The user named the purchase by its ID: one of somebody who was erased stays there.
    case askedByID
    /// The service, or support, asked about a known purchase; the item of a run is settled.
    case recheck(RunItem?)
    /// Nobody asked for the user, who is named by the purchase: one who presents proof later gets it.
    case named
  }

  package var user: UserID
  /// Apple's answer, by subscription. May be empty: a receipt without purchases.
  package var evidence: [SubscriptionEvidence]
  /// The keys that decide ownership: those with a product of the catalog, or all if there are none.
  package var contestedKeys: Set<SubscriptionKey>
  /// The keys whose account token names another user: this user does not get them.
  package var keysNamingOthers: Set<SubscriptionKey> = []
  /// Every account token is the ID of a user (`policy.app_account_token`).
  package var tokensAreUserIDs = false
  /// Apple is told the user of a purchase that does not name them.
  package var tellsAccountTokens = false
  package var receipt: KeptReceipt
  /// The octets of the receipt that others have too, of what its base64 spells, or of its text where it is a signed
  /// transaction: certificates of Apple's. The ledger stores them once. `nil`: none are known.
  package var sharedOctets: Range<Int>?
  /// The octets that the receipt's base64 spells; `nil`: it has not been decoded.
  package var receiptOctets: [UInt8]?
  /// The SHA-256 of the receipt's bytes, or of a signed transaction's text; `nil`: it is not known.
  package var receiptDigest: SHA256Digest?
  /// A purchase with a stored receipt keeps it, since this one cannot be sent to verifyReceipt. A purchase without one
  /// takes the entry's.
  package var keepsReceipts = false
  package var origin: Origin
  /// Support's reason for the question.
  package var note: NoteID?
  /// The evaluation time.
  package var evaluatedAt: Date
  /// Our own clock, for the record only: no decision depends on it.
  package var recordedAt: Date
  /// The request's ID in the history.
  package var requestID: String
  package var rules: any VerdictRules
  /// Called before a verdict replaces another; `false` leaves everything unchanged.
  package var approves: Approval
  /// Until when the app's rows are claimed for the caller, which writes the rows of users who lost a purchase first.
  /// `nil`: the outbox delivers them at once.
  package var rowsClaimedUntil: Date?

  package init(
    user: UserID, evidence: [SubscriptionEvidence], contestedKeys: Set<SubscriptionKey>, receipt: KeptReceipt,
    origin: Origin, evaluatedAt: Date, recordedAt: Date, requestID: String, rules: any VerdictRules,
    approves: @escaping Approval = { _, _ in true }
  ) {
    self.user = user
    self.evidence = evidence
    self.contestedKeys = contestedKeys
    self.receipt = receipt
    self.origin = origin
    self.evaluatedAt = evaluatedAt
    self.recordedAt = recordedAt
    self.requestID = requestID
    self.rules = rules
    self.approves = approves
  }
}

extension LedgerEntry.Origin {
  var ownership: OwnershipPolicy {
    switch self {
    case .presented(let policy), .settlement(_, let policy): policy
    case .askedByID, .recheck, .named: .keep
    }
  }

  var isProven: Bool {
    switch self {
    case .presented, .settlement: true
    case .askedByID, .recheck, .named: false
    }
  }

  /// Whether a user wants the purchase: one that is a user's by the account token alone is theirs by more from now on.
  var isByUser: Bool { isProven || self == .askedByID }
}

/// The result of recording an answer from Apple.
package enum RecordOutcome: Sendable {
  /// Recorded and durable.
  case recorded(Recorded)
  /// Every contested key belongs to another user and stays there by policy, or was bought for one. Nothing was
  /// recorded.
  case ownedByAnotherUser
  /// Every contested key is of an ownership that this version does not know. Nothing was recorded.
  case ofUnknownOwnership
  /// The entry's approval refused the verdict, or the entry settles a receipt with a purchase granted on an earlier
  /// receipt, which is still queued. Nothing was recorded.
  case heldBack
}
