internal import Entitlements
internal import struct FoundationEssentials.Date

/// A purchase of the App Store: its owner, its newest evidence, and its next check.
struct PurchaseTable: LedgerTable {
  let tables: LedgerTables

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

  /// The columns after the owner's, in the order of their values.
  private static let columns = """
    claim, proof_id, source, evidence_at, judged_at, account_gone, evidence, renewal_off_at, billing_failed_at,
    scheduled_at, due_at, attempts
    """
  private static let purchaseRow = """
    SELECT id, environment, original_transaction_id, user_id, account.spelling, \(columns)
    FROM purchase LEFT JOIN account ON account.key = user_id
    """
  private static let purchaseByKey = SQL("\(purchaseRow) WHERE environment = ? AND original_transaction_id = ?")
  private static let purchaseByID = SQL("\(purchaseRow) WHERE id = ?")
  private static let updatePurchase = SQL.update("purchase", "user_id, \(columns)", "WHERE id = ?")
  private static let insertPurchase = SQL.insert(
    "purchase", "id, environment, original_transaction_id, user_id, \(columns)")

  func purchase(_ key: SubscriptionKey) throws -> StoredPurchase? {
    try first(Self.purchaseByKey, key, read: StoredPurchase.init(_:))
  }

  func purchase(id: Int64) throws -> StoredPurchase {
    guard let purchase = try first(Self.purchaseByID, id, read: StoredPurchase.init(_:)) else {
      throw StoredForm.Unstorable()
    }
    return purchase
  }

  /// The key of a purchase, whichever store it is of.
  func key(ofPurchase id: Int64) throws -> SubscriptionKey? {
    guard id < 0 else { return try first("SELECT environment, original_transaction_id FROM purchase WHERE id = ?", id) }
    return try first("SELECT environment, original_transaction_id FROM revenuecat_purchase WHERE id = ?", id)
  }

  private static let successorOf = SQL(
    "SELECT environment, successor_id FROM migrated_purchase WHERE environment = ? AND original_transaction_id = ?")

  /// A purchase may migrate more than once.
  private static let mostMigrations = 8

  /// The ID under which a purchase is kept; `nil` for one that has not moved.
  func successor(of key: SubscriptionKey) throws -> SubscriptionKey? {
    var last: SubscriptionKey?
    for _ in 0..<Self.mostMigrations {
      guard let next = try first(Self.successorOf, last ?? key, as: SubscriptionKey.self) else { break }
      last = next
    }
    return last
  }

  /// A user's purchases at Apple's, in the order of `SubscriptionKey.precedes`.
  func purchases(of account: Account?, without known: Set<Int64> = []) throws -> [StoredPurchase] {
    try (account?.purchases ?? []).filter { $0 > 0 && !known.contains($0) }.map(purchase(id:))
      .sorted { $0.evidence.key.precedes($1.evidence.key) }
  }

  /// All evidence that counts for a user: Apple's first, then that of other stores, then provisional grants, each in the
  /// order of `SubscriptionKey.precedes`.
  func evidence(of account: Account) throws -> [SubscriptionEvidence] {
    try purchases(of: account).map(\.evidence) + tables.otherStores.storeEvidence(of: account)
      + tables.provisionalGrants.evidence(of: account.user)
  }

  func evidence(of user: UserID) throws -> [SubscriptionEvidence] {
    try tables.accounts.account(of: user).map(evidence) ?? []
  }

  /// The rule of `transfer_if_inactive` over stored purchases: whether one grants its owner nothing.
  func inactivity(
    of stored: [SubscriptionKey: StoredPurchase], by rules: any VerdictRules, at now: Date
  ) -> (SubscriptionKey) throws -> Bool {
    var known: [UserID: PurchaseSurroundings] = [:]
    return { [self] key in
      guard let purchase = stored[key] else { return false }
      let owner = purchase.owner
      let surroundings = try known[owner] ?? rules.surroundings(of: evidence(of: owner))
      known[owner] = surroundings
      return rules.evaluate(owner, [purchase.evidence], among: surroundings, given: [], at: now).isInactive
    }
  }

  func nextID() throws -> Int64? { try tables.nextID("SELECT nextval('purchase_id_seq')") }

  /// - Returns: the row's ID.
  func save(_ purchase: StoredPurchase) throws -> Int64 {
    let evidence = purchase.evidence
    changes.invalidate(purchase.owner)
    func write<each Value: SQLValue>(_ values: repeat each Value) throws -> Int64 {
      guard let id = purchase.id else {
        let id = try insert(nextID(), Self.insertPurchase, evidence.key, repeat each values)
        try tables.marks.markFigures(of: id)
        return id
      }
      try tables.marks.markFigures(of: id)
      try execute(Self.updatePurchase, repeat each values, id)
      return id
    }
    return try write(
      purchase.owner.key, purchase.claim, purchase.proof, evidence.source, purchase.evidenceAt, purchase.evaluatedAt,
      evidence.isAccountGone, purchase.rows, purchase.renewalOffAt, purchase.billingFailedAt,
      purchase.schedule?.scheduledAt, purchase.schedule?.dueAt, purchase.schedule?.attempts ?? 0)
  }

  func knowledge(of digest: ReceiptDigest, for user: UserID) throws -> ReceiptKnowledge {
    guard let account = try tables.accounts.account(of: user) else {
      return ReceiptKnowledge(wasEvaluated: false, proves: [])
    }
    // A verdict on a queued receipt did not come from Apple.
    let waits = try account.user.spellings.contains { name in
      try exists("SELECT 1 FROM pending_receipt WHERE user_id = ? AND sha256 = ?", name, digest)
    }
    let proves = try purchases(of: account).filter { try tables.proofs.digest(ofProof: $0.proof) == digest }
    return ReceiptKnowledge(
      wasEvaluated: try !proves.isEmpty || !waits && tables.events.isAmongLastVerdicts(digest, of: account),
      proves: Set(proves.map(\.evidence.key)))
  }

  /// The stored receipts behind an original transaction ID: one per store.
  func receipts(mentioning id: OriginalTransactionID) throws -> [KeptReceipt] {
    try StoreEnvironment.allCases.sorted { $0.rawValue < $1.rawValue }.compactMap { environment in
      let key = SubscriptionKey(environment: environment, originalTransactionID: id)
      guard let purchase = try purchase(successor(of: key) ?? key) else { return nil }
      var kept = try receipt(of: purchase)
      kept.isOwnedByName = purchase.claim == .accountToken
      return kept
    }
  }

  /// The receipt behind a purchase, with its store and its owner.
  func receipt(of purchase: StoredPurchase) throws -> KeptReceipt {
    var kept = try tables.proofs.proof(purchase.proof).receipt
    kept.environment = purchase.evidence.key.environment
    kept.owner = purchase.owner
    return kept
  }
}

extension PurchaseTable.StoredPurchase {
  fileprivate init(_ row: SQLRow) throws {
    (evidenceAt, evaluatedAt, rows) = (try row.get(8), try row.get(9), try row.get(11))
    evidence = try StoredForm.evidence(
      rows, of: row.get(1), source: row.get(7), evidenceAt: evidenceAt, evaluatedAt: evaluatedAt,
      isAccountGone: row.get(10))
    (id, owner) = (try row.get(0), try row.get(4, as: UserID?.self) ?? row.get(3))
    (claim, proof) = (try row.get(5), try row.get(6))
    (renewalOffAt, billingFailedAt) = (try row.get(12), try row.get(13))
    if let scheduledAt: Int64 = try row.get(14) {
      schedule = .init(scheduledAt: scheduledAt, dueAt: try row.get(15), attempts: try row.get(16))
    }
  }
}

extension SubscriptionKey {
  /// The order in which the ledger returns evidence, so that equal evidence always evaluates to an equal verdict.
  func precedes(_ other: SubscriptionKey) -> Bool {
    (environment.rawValue, originalTransactionID.rawValue)
      < (other.environment.rawValue, other.originalTransactionID.rawValue)
  }
}
