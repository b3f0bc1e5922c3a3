package import Entitlements
internal import struct FoundationEssentials.Date

/// Joins an anonymous customer to the user who signed in on the device. Both are known afterwards. Purchases, what was
/// given, consumption and receipts that wait move in one transaction, and from then on the anonymous ID means the user.
///
/// A purchase that names a third user is left behind: nobody has it, as if its owner had been erased, until somebody proves it.
/// Access on the signature of such a purchase alone ends.
package struct JoinCustomer: LedgerOperation {
  package enum Outcome: Hashable, Sendable {
    /// The belongings of the anonymous customer are the user's now.
    case joined
    /// They were joined before.
    case unchanged
    /// The former ID is a user of its own, who keeps what it has: two named users are never joined.
    case separate
  }

  package var id: UserID
  package var user: UserID
  package var requestID: String
  package var evaluationContext: EvaluationContext

  package init(_ id: UserID, to user: UserID, requestID: String, _ evaluationContext: EvaluationContext) {
    (self.id, self.user) = (id, user)
    (self.requestID, self.evaluationContext) = (requestID, evaluationContext)
  }

  package func run(_ tables: LedgerTables) throws -> Outcome {
    let user = try tables.accounts.name(of: user)
    let isKnown = try tables.customers.customer(user) != nil
    for one in [id, user] { try tables.customers.meet(one, at: evaluationContext.recordedAt) }
    guard id.isAnonymous else { return .separate }
    let former = try tables.accounts.name(of: id)
    guard former != user else { return .unchanged }
    // It was another user's before.
    guard former == id else { return .separate }
    // Anybody may invent an ID: one without a purchase or a trial moves no known user's first day.
    if isKnown, try tables.accounts.account(of: id) == nil {
      try tables.execute(
        "UPDATE customer SET first_seen_at = ? WHERE key = ?", evaluationContext.recordedAt, id.key)
    }
    try move(to: user, tables)
    try tables.customers.join(id, to: user)
    return .joined
  }

  private func move(to user: UserID, _ tables: LedgerTables) throws {
    var winner = try tables.accounts.account(of: user) ?? Account(of: user)
    for evidence in try tables.provisionalGrants.evidence(of: id)
    where try isAnothers(evidence, than: winner.user, tables) {
      try tables.provisionalGrants.remove(on: evidence.key)
    }
    guard var loser = try tables.accounts.account(of: id) else {
      return try tables.customers.moveBelongings(of: id, to: winner.user)
    }
    let purchases = try tables.purchases.purchases(of: loser)
    let writer = try tables.writer(
      evaluationContext, requestID: requestID, digest: tables.accounts.newestDigest(of: loser),
      evidenceAt: purchases.map(\.evidenceAt).max())
    let hasVerdict = loser.version > 0
    var nobody: Account?
    for var purchase in purchases {
      let isLeft = try isAnothers(purchase.evidence, than: winner.user, tables)
      var owner = isLeft ? try nobody ?? Account(of: tables.pseudonyms.newPseudonym(ofKey: id.key)) : winner
      purchase.owner = owner.user
      if isLeft {
        purchase.evidence = purchase.evidence.withoutAccounts { _ in true }
        purchase.rows = try StoredForm.text(purchase.evidence)
      }
      let row = try tables.purchases.save(purchase)
      if evaluationContext.tellsAccountTokens {
        try tables.accountTokens.tell(ofPurchase: row, at: writer.head.recordedAt)
      } else {
        try tables.accountTokens.forget(tokenOf: purchase.evidence.key)
      }
      try tables.events.appendGain(of: row, from: loser.user, to: &owner, writer.head)
      try tables.events.appendLoss(of: row, to: owner.user, from: &loser, writer.head)
      if isLeft { nobody = owner } else { winner = owner }
    }
    for id in loser.purchases where id < 0 {
      guard var purchase = try tables.otherStores.purchase(id: id) else { throw StoredForm.Unstorable() }
      purchase.owner = winner.user
      _ = try tables.otherStores.save(purchase)
      try tables.events.appendGain(of: id, from: loser.user, to: &winner, writer.head)
      try tables.events.appendLoss(of: id, to: winner.user, from: &loser, writer.head)
    }
    winner.given = (winner.given + loser.given).sorted { $0.id < $1.id }
    loser.given = []
    try tables.customers.moveBelongings(of: id, to: winner.user)
    if var nobody { try writer.reevaluate(&nobody) }
    guard hasVerdict else { return try tables.accounts.save(loser, at: writer.head.recordedAt) }
    try writer.reevaluate(&winner)
    try writer.reevaluate(&loser)
  }

  private func isAnothers(_ evidence: SubscriptionEvidence, than user: UserID, _ tables: LedgerTables) throws -> Bool {
    try tables.unclaimed.names(evidence, anotherThan: user, tokensAreUserIDs: evaluationContext.tokensAreUserIDs)
  }
}
