internal import Entitlements

/// Purchases that Apple moved to another original transaction ID: a subscription that migrates to the Advanced Commerce API.
///
/// The transactions under the new ID name the former one. What is kept under that moves to the new one, with its owner, its
/// history and its figures, and what arrives under it later is taken as a report of the new one:
///
///     known under the former ID    known under the new ID    moves
///     a user's                     nothing, or unclaimed     the purchase itself
///     a user's                     the same user's           the transactions
///     a user's                     another user's            nothing: the former one runs out
///     unclaimed, granted           any                       the evidence, the grant
///     notifications, extensions    any but another user's    these
///     a user to be told of         any but another user's    the user, unless one is under the new ID
///
/// https://developer.apple.com/documentation/appstoreservernotifications/previousoriginaltransactionid
struct MigrationTable: LedgerTable {
  let tables: LedgerTables

  private static let insertMigration = SQL.insert(
    "migrated_purchase", "environment, original_transaction_id, successor_id",
    "ON CONFLICT (environment, original_transaction_id) DO NOTHING")

  private static let updateNotifications = SQL.update(
    "notification", "original_transaction_id", "WHERE environment = ? AND original_transaction_id = ?")

  /// Moves what is kept under the former IDs that evidence names.
  func migrate(to evidence: SubscriptionEvidence) throws {
    for former in evidence.formerKeys.sorted(by: { $0.precedes($1) }) {
      // A later migration may be known already. Two that name each other are none.
      let key = try tables.purchases.successor(of: evidence.key) ?? evidence.key
      guard key != former, try tables.purchases.successor(of: former) == nil else { continue }
      try migrate(former, to: key)
    }
  }

  /// Evidence under the ID under which its purchase is kept.
  func followingMigrations(_ evidence: SubscriptionEvidence) throws -> SubscriptionEvidence {
    try migrate(to: evidence)
    guard let key = try tables.purchases.successor(of: evidence.key) else { return evidence }
    return evidence.migrated(to: key)
  }

  private func migrate(_ former: SubscriptionKey, to key: SubscriptionKey) throws {
    let (purchase, present) = (try tables.purchases.purchase(former), try tables.purchases.purchase(key))
    if let purchase, let present, purchase.owner.key != present.owner.key { return }
    try execute(Self.insertMigration, former, key.originalTransactionID)
    try execute(Self.updateNotifications, key.originalTransactionID, former)
    try tables.extensions.move(recordsOf: former, to: key)
    try tables.accountTokens.move(tokenOf: former, to: key)
    if let purchase { try move(purchase, to: key, present) }
    if let waiting = try tables.unclaimed.purchase(former) { try move(waiting, to: key) }
    if try tables.provisionalGrants.grant(on: key) == nil, var grant = try tables.provisionalGrants.grant(on: former),
      let until = grant.evidence.provisionalUntil
    {
      try tables.provisionalGrants.remove(on: former)
      grant.evidence = grant.evidence.migrated(to: key)
      try tables.provisionalGrants.save(grant, until: StoredForm.milliseconds(until))
    }
  }

  private func move(
    _ purchase: PurchaseTable.StoredPurchase, to key: SubscriptionKey, _ present: PurchaseTable.StoredPurchase?
  ) throws {
    guard let id = purchase.id else { return }
    let moved = purchase.evidence.migrated(to: key)
    var purchase = purchase
    guard var present, let presentID = present.id else {
      try execute("UPDATE purchase SET original_transaction_id = ? WHERE id = ?", key.originalTransactionID, id)
      try purchase.take(moved)
      _ = try tables.purchases.save(purchase)
      return
    }
    let whole = present.evidence.merging(moved)
    let past = [try tables.pastTransactions.past(of: id, key), whole.leftOut(of: [moved])].compactMap(\.self)
    try present.take(whole)
    _ = try tables.purchases.save(present)
    for past in past { try tables.pastTransactions.keep(past.migrated(to: key), of: presentID) }
    // The history names the row, which stays without a transaction.
    try purchase.take(purchase.evidence.parts { _ in false })
    purchase.schedule = nil
    _ = try tables.purchases.save(purchase)
    try execute("DELETE FROM past_evidence WHERE purchase_id = ?", id)
  }

  private func move(_ waiting: UnclaimedTable.StoredUnclaimed, to key: SubscriptionKey) throws {
    try tables.unclaimed.remove(waiting.evidence.key)
    let moved = waiting.evidence.migrated(to: key)
    var unclaimed = try tables.unclaimed.purchase(key) ?? waiting
    unclaimed.evidence = unclaimed.evidence.key == key ? unclaimed.evidence.merging(moved) : moved
    unclaimed.rows = try StoredForm.text(unclaimed.evidence)
    try tables.unclaimed.save(unclaimed, seenAt: StoredForm.milliseconds(unclaimed.evidence.evidenceTime))
  }
}

extension LedgerTables { var migrations: MigrationTable { MigrationTable(tables: self) } }

extension PurchaseTable.StoredPurchase {
  /// Puts evidence in the place of the present one.
  fileprivate mutating func take(_ evidence: SubscriptionEvidence) throws {
    self.evidence = evidence
    evidenceAt = try StoredForm.milliseconds(evidence.evidenceTime)
    evaluatedAt = try StoredForm.milliseconds(evidence.evaluatedAt)
    rows = try StoredForm.text(evidence)
    if evidence.renewals.isEmpty { (renewalOffAt, billingFailedAt) = (nil, nil) }
  }
}

extension PreparedEntry {
  /// Puts evidence under the IDs under which its purchases are kept. What arrives under a former ID is a report of some
  /// transactions: it does not know the later ones.
  mutating func followMigrations(_ tables: LedgerTables) throws {
    var moved: [SubscriptionKey: SubscriptionKey] = [:]
    for key in subscriptions.map(\.evidence.key) { moved[key] = try tables.purchases.successor(of: key) }
    guard !moved.isEmpty else { return }
    let evidence = subscriptions.map { subscription in
      moved[subscription.evidence.key].map(subscription.evidence.migrated) ?? subscription.evidence
    }
    try take(evidence.filter { !$0.purchases.isEmpty || !$0.renewals.isEmpty })
    entry.contestedKeys = Set(entry.contestedKeys.map { moved[$0] ?? $0 })
    entry.keysNamingOthers = Set(entry.keysNamingOthers.map { moved[$0] ?? $0 })
  }
}
