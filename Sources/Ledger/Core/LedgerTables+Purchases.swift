internal import Entitlements
internal import struct FoundationEssentials.Date

extension LedgerTables {
  /// How the owner of a purchase acquired it.
  enum Claim: String, StoredWord {
    /// The owner presented a receipt or a signed transaction, or a person decided so.
    case proof
    /// The purchase names the owner, and no user had presented proof.
    case accountToken = "account_token"
  }

  struct StoredPurchase {
    /// The row's ID; `nil` before it is saved.
    var id: Int64?
    var evidence: SubscriptionEvidence
    var owner: UserID
    var claim: Claim
    var proof: Int64
    var evidenceAt: Int64
    var evaluatedAt: Int64
    /// The text of the `evidence` column.
    var rows: String
    /// When renewal was first seen to be off, and when billing first failed.
    var renewalOffAt: Int64?
    var billingFailedAt: Int64?
    var schedule: Schedule?
  }

  /// When Apple has to be asked about a purchase again.
  struct Schedule: Hashable {
    /// When the purchase's state calls for a check.
    var scheduledAt: Int64
    /// `scheduledAt` plus jitter, or the end of the current claim.
    var dueAt: Int64
    /// Claims that were not answered.
    var attempts = 0
  }

  // MARK: Purchases

  func purchase(_ key: SubscriptionKey) throws -> StoredPurchase? {
    try first(
      """
      SELECT id, environment, original_transaction_id, user_id, account.spelling, claim, proof_id, source, evidence_at,
        judged_at, account_gone, evidence, renewal_off_at, billing_failed_at, scheduled_at, due_at, attempts
      FROM purchase LEFT JOIN account ON account.key = user_id
      WHERE environment = ? AND original_transaction_id = ?
      """, key.environment, key.originalTransactionID, read: Self.purchase)
  }

  func purchase(id: Int64) throws -> StoredPurchase {
    let purchase = try first(
      """
      SELECT id, environment, original_transaction_id, user_id, account.spelling, claim, proof_id, source, evidence_at,
        judged_at, account_gone, evidence, renewal_off_at, billing_failed_at, scheduled_at, due_at, attempts
      FROM purchase LEFT JOIN account ON account.key = user_id
      WHERE id = ?
      """, id, read: Self.purchase)
    guard let purchase else { throw StoredForm.Unstorable() }
    return purchase
  }

  private static func purchase(_ row: SQLRow) throws -> StoredPurchase {
    let evidenceAt: Int64 = try row.get(8)
    let evaluatedAt: Int64 = try row.get(9)
    let text: String = try row.get(11)
    var schedule: Schedule?
    if let scheduledAt: Int64 = try row.get(14) {
      schedule = Schedule(scheduledAt: scheduledAt, dueAt: try row.get(15), attempts: try row.get(16))
    }
    return StoredPurchase(
      id: try row.get(0),
      evidence: try StoredForm.evidence(
        text, of: row.key(1), source: row.get(7), evidenceAt: evidenceAt, evaluatedAt: evaluatedAt,
        isAccountGone: row.get(10)),
      owner: try row.get(4, as: UserID?.self) ?? row.get(3), claim: try row.get(5), proof: try row.get(6),
      evidenceAt: evidenceAt, evaluatedAt: evaluatedAt, rows: text, renewalOffAt: try row.get(12),
      billingFailedAt: try row.get(13), schedule: schedule)
  }

  /// A user's purchases at Apple's, in the order of `SubscriptionKey.precedes`.
  func purchases(of account: Account?, without known: Set<Int64> = []) throws -> [StoredPurchase] {
    try (account?.purchases ?? []).filter { $0 > 0 && !known.contains($0) }.map(purchase(id:))
      .sorted { $0.evidence.key.precedes($1.evidence.key) }
  }

  /// All evidence that counts for a user: Apple's first, then that of other stores, then provisional grants, each in the
  /// order of `SubscriptionKey.precedes`.
  func evidence(of account: Account) throws -> [SubscriptionEvidence] {
    try purchases(of: account).map(\.evidence) + storeEvidence(of: account) + provisionalEvidence(of: account.user)
  }

  /// - Returns: the row's ID.
  func save(_ purchase: StoredPurchase) throws -> Int64 {
    let evidence = purchase.evidence
    let key = evidence.key
    changes.invalidate(purchase.owner)
    if let id = purchase.id {
      try noteFigures(of: id)
      try execute(
        """
        UPDATE purchase SET
          user_id = ?, claim = ?, proof_id = ?, source = ?, evidence_at = ?, judged_at = ?, account_gone = ?, evidence = ?,
          renewal_off_at = ?, billing_failed_at = ?, scheduled_at = ?, due_at = ?, attempts = ?
        WHERE id = ?
        """, purchase.owner.key, purchase.claim, purchase.proof, evidence.source, purchase.evidenceAt,
        purchase.evaluatedAt, evidence.isAccountGone, purchase.rows, purchase.renewalOffAt, purchase.billingFailedAt,
        purchase.schedule?.scheduledAt, purchase.schedule?.dueAt, purchase.schedule?.attempts ?? 0, id)
      return id
    }
    let id = try insert(
      nextPurchase(),
      """
      INSERT INTO purchase
        (id, environment, original_transaction_id, user_id, claim, proof_id, source, evidence_at, judged_at, account_gone,
         evidence, renewal_off_at, billing_failed_at, scheduled_at, due_at, attempts)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      """, key.environment, key.originalTransactionID, purchase.owner.key, purchase.claim, purchase.proof,
      evidence.source, purchase.evidenceAt, purchase.evaluatedAt, evidence.isAccountGone, purchase.rows,
      purchase.renewalOffAt, purchase.billingFailedAt, purchase.schedule?.scheduledAt, purchase.schedule?.dueAt,
      purchase.schedule?.attempts ?? 0)
    try noteFigures(of: id)
    return id
  }

  func knowledge(of digest: ReceiptDigest, for user: UserID) throws -> ReceiptKnowledge {
    // A verdict on a queued receipt did not come from Apple.
    let waits = try user.spellings.contains { name in
      try exists("SELECT 1 FROM pending_receipt WHERE user_id = ? AND sha256 = ?", name, digest)
    }
    guard let account = try account(of: user) else { return ReceiptKnowledge(wasEvaluated: false, proves: []) }
    let proves = try purchases(of: account).filter { try self.digest(ofProof: $0.proof) == digest }
    return ReceiptKnowledge(
      wasEvaluated: try !proves.isEmpty || !waits && isAmongLastVerdicts(digest, of: account),
      proves: Set(proves.map(\.evidence.key)))
  }

  /// The stored receipts behind an original transaction ID: one per store.
  func receipts(mentioning id: OriginalTransactionID) throws -> [KeptReceipt] {
    try StoreEnvironment.allCases.sorted { $0.rawValue < $1.rawValue }.compactMap { environment in
      let purchase = try purchase(SubscriptionKey(environment: environment, originalTransactionID: id))
      return try purchase.map(receipt)
    }
  }

  private func receipt(of purchase: StoredPurchase) throws -> KeptReceipt {
    var kept = try proof(purchase.proof).receipt
    kept.environment = purchase.evidence.key.environment
    kept.owner = purchase.owner
    kept.isOwnedByName = purchase.claim == .accountToken
    return kept
  }
}
