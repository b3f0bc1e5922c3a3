package import Entitlements
package import struct FoundationEssentials.Date

/// Transfers a purchase to another user, by a person's decision. The new owner's verdict, the purchase, the record of who
/// decided, and the former owner's verdict are written together or not at all.
package struct TransferPurchase: LedgerOperation {
  package enum Outcome: Hashable, Sendable {
    /// The purchase was another user's.
    case moved(from: UserID)
    /// The purchase was this user's already: nothing was written.
    case unchanged
    /// The ledger has no such purchase.
    case unknown
  }

  package var key: SubscriptionKey
  package var to: UserID
  package var note: Note
  package var evaluationContext: EvaluationContext
  /// Until when the app's rows are claimed for the caller: see `LedgerEntry`.
  package var rowsClaimedUntil: Date?

  package init(
    key: SubscriptionKey, to: UserID, note: Note, evaluationContext: EvaluationContext, rowsClaimedUntil: Date? = nil
  ) {
    self.key = key
    self.to = to
    self.note = note
    self.evaluationContext = evaluationContext
    self.rowsClaimedUntil = rowsClaimedUntil
  }

  package func run(_ tables: LedgerTables) throws -> Outcome {
    let key = try tables.purchases.successor(of: key) ?? key
    guard var purchase = try tables.purchases.purchase(key), let id = purchase.id else { return .unknown }
    var winner = try tables.accounts.knownOrNewAccount(of: to)
    guard purchase.owner.key != winner.user.key else { return .unchanged }
    let former = purchase.owner
    let noteID = try tables.events.append(note)
    let writer = try tables.writer(
      evaluationContext, requestID: note.requestID, note: noteID,
      digest: tables.proofs.digest(ofProof: purchase.proof), evidenceAt: purchase.evidenceAt,
      rowsClaimedUntil: rowsClaimedUntil)
    // A grant on the signature of a newer renewal belonged to the former owner.
    if let grant = try tables.provisionalGrants.grant(on: key), grant.owner != winner.user {
      try tables.provisionalGrants.end(on: key)
    }
    purchase.owner = winner.user
    purchase.claim = .proof
    _ = try tables.purchases.save(purchase)
    try OwnershipMove(
      tables: tables, gained: [(id, from: former)], tellsAccountTokens: evaluationContext.tellsAccountTokens,
      writer: { _ in writer }
    ).run(to: &winner)
    return .moved(from: former)
  }
}
