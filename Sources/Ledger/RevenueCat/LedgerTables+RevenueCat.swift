package import Entitlements
internal import struct FoundationEssentials.Date

extension LedgerTables {
  // MARK: Purchases at other stores

  struct RevenueCatPurchase {
    /// Negative; `nil` before it is saved.
    var id: Int64?
    var owner: UserID
    var events: [StoreEvent]
    var evidence: SubscriptionEvidence
    var dueAt: Date?
  }

  func revenueCatPurchase(_ key: SubscriptionKey) throws -> RevenueCatPurchase? {
    try first(
      """
      SELECT id, environment, original_transaction_id, user_id, account.spelling, evidence, unlocks, evidence_at,
        judged_at, due_at, events
      FROM revenuecat_purchase LEFT JOIN account ON account.key = user_id
      WHERE environment = ? AND original_transaction_id = ?
      """, key.environment, key.originalTransactionID, read: Self.revenueCatPurchase)
  }

  func revenueCatPurchase(id: Int64) throws -> RevenueCatPurchase? {
    try first(
      """
      SELECT id, environment, original_transaction_id, user_id, account.spelling, evidence, unlocks, evidence_at,
        judged_at, due_at, events
      FROM revenuecat_purchase LEFT JOIN account ON account.key = user_id
      WHERE id = ?
      """, id, read: Self.revenueCatPurchase)
  }

  /// A purchase at whichever store, with its owner and with the transactions that its evidence no longer has; `nil` for
  /// one that is gone.
  package func countable(_ id: Int64) throws -> (evidence: SubscriptionEvidence, owner: UserID)? {
    guard id < 0 else {
      let purchase = try purchase(id: id)
      return (purchase.evidence.including(past: try pastTransactions(of: id)), purchase.owner)
    }
    return try revenueCatPurchase(id: id).map { ($0.evidence, $0.owner) }
  }

  private static func revenueCatPurchase(_ row: SQLRow) throws -> RevenueCatPurchase {
    RevenueCatPurchase(
      id: try row.get(0), owner: try row.get(4, as: UserID?.self) ?? row.get(3),
      events: try StoredForm.decoded([StoreEvent].self, row.get(10)),
      evidence: try storeEvidence(row, key: 1, text: row.get(5), unlocks: row.get(6), times: 7),
      dueAt: try row.get(9))
  }

  private static func storeEvidence(
    _ row: SQLRow, key: Int, text: String, unlocks: String?, times: Int
  ) throws -> SubscriptionEvidence {
    var evidence = try StoredForm.evidence(
      text, of: row.key(key), source: .revenuecat, evidenceAt: row.get(times), evaluatedAt: row.get(times + 1))
    if let unlocks {
      for (product, entitlements) in try StoredForm.decoded([String: [String]].self, unlocks) {
        evidence.unlocks[ProductID(product)] = entitlements
      }
    }
    return evidence
  }

  /// A user's purchases at other stores, in the order of `SubscriptionKey.precedes`.
  func storeEvidence(of account: Account) throws -> [SubscriptionEvidence] {
    let ids = account.purchases.filter { $0 < 0 }
    guard !ids.isEmpty else { return [] }
    return try ids.map { id in
      let evidence = try first(
        """
        SELECT environment, original_transaction_id, evidence, unlocks, evidence_at, judged_at FROM revenuecat_purchase
        WHERE id = ?
        """, id
      ) { row in try Self.storeEvidence(row, key: 0, text: row.get(2), unlocks: row.get(3), times: 4) }
      guard let evidence else { throw StoredForm.Unstorable() }
      return evidence
    }.sorted { $0.key.precedes($1.key) }
  }

  func revenueCatPurchaseKey(_ id: Int64) throws -> SubscriptionKey? {
    try first("SELECT environment, original_transaction_id FROM revenuecat_purchase WHERE id = ?", id) { try $0.key(0) }
  }

  func revenueCatPurchaseCount() throws -> Int {
    try first("SELECT count(*) FROM revenuecat_purchase") { try $0.get(0) } ?? 0
  }

  /// - Returns: the row's ID.
  func save(_ purchase: RevenueCatPurchase) throws -> Int64 {
    let evidence = purchase.evidence
    changes.invalidate(purchase.owner)
    let events = try StoredForm.encoded(purchase.events)
    let unlocks = try evidence.storedUnlocks
    if let id = purchase.id {
      try noteFigures(of: id)
      try execute(
        """
        UPDATE revenuecat_purchase SET
          user_id = ?, events = ?, evidence = ?, unlocks = ?, evidence_at = ?, judged_at = ?, due_at = ?
        WHERE id = ?
        """, purchase.owner.key, events, StoredForm.text(evidence), unlocks, evidence.evidenceTime,
        evidence.evaluatedAt, purchase.dueAt, id)
      return id
    }
    let id = try first("SELECT coalesce(min(id), 0) - 1 FROM revenuecat_purchase") { try $0.get(0, as: Int64.self) }
    guard let id else { throw StoredForm.Unstorable() }
    try noteFigures(of: id)
    try execute(
      """
      INSERT INTO revenuecat_purchase
        (id, environment, original_transaction_id, user_id, events, evidence, unlocks, evidence_at, judged_at, due_at)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      """, id, evidence.key.environment, evidence.key.originalTransactionID, purchase.owner.key, events,
      StoredForm.text(evidence), unlocks, evidence.evidenceTime, evidence.evaluatedAt, purchase.dueAt)
    return id
  }

  /// The purchases that time alone has changed, the longest overdue first.
  func revenueCatTurns(dueAt now: Date, limit: Int) throws -> [RevenueCatTurn] {
    try all(
      """
      SELECT environment, original_transaction_id, user_id, account.spelling
      FROM revenuecat_purchase LEFT JOIN account ON account.key = user_id
      WHERE due_at <= ? ORDER BY due_at LIMIT ?
      """, now, max(0, limit)
    ) { row in RevenueCatTurn(key: try row.key(0), owner: try row.get(3, as: UserID?.self) ?? row.get(2)) }
  }

  func setTurn(of key: SubscriptionKey, at due: Date?) throws {
    try execute(
      "UPDATE revenuecat_purchase SET due_at = ? WHERE environment = ? AND original_transaction_id = ?", due,
      key.environment, key.originalTransactionID)
  }

  // MARK: Reports that somebody else has to confirm

  struct StoredReport {
    var key: SubscriptionKey
    var user: UserID
    var events: [StoreEvent]
    /// The evidence that counts until `until`, if any.
    var evidence: SubscriptionEvidence?
    /// The time of the newest event.
    var at: Date
    /// When the first one came.
    var reportedAt: Date
    var until: Date?
    var dueAt: Date
    var attempts = 0
  }

  func report(_ key: SubscriptionKey) throws -> StoredReport? {
    try first(
      """
      SELECT environment, original_transaction_id, user_id, account.spelling, evidence, unlocks, evidence_at, judged_at,
        events, reported_at, until, due_at, attempts
      FROM revenuecat_report LEFT JOIN account ON account.key = user_id
      WHERE environment = ? AND original_transaction_id = ?
      """, key.environment, key.originalTransactionID, read: Self.report)
  }

  func reports(dueAt now: Date, limit: Int) throws -> [StoredReport] {
    try all(
      """
      SELECT environment, original_transaction_id, user_id, account.spelling, evidence, unlocks, evidence_at, judged_at,
        events, reported_at, until, due_at, attempts
      FROM revenuecat_report LEFT JOIN account ON account.key = user_id
      WHERE due_at <= ? ORDER BY due_at LIMIT ?
      """, now, max(0, limit), read: Self.report)
  }

  /// The reports that count for a user, in the order of `SubscriptionKey.precedes`.
  func reportedEvidence(of user: UserID) throws -> [SubscriptionEvidence] {
    try all(
      """
      SELECT environment, original_transaction_id, user_id, NULL, evidence, unlocks, evidence_at, judged_at,
        '[]', reported_at, until, due_at, attempts
      FROM revenuecat_report WHERE user_id = ? AND until IS NOT NULL
      """, user.key, read: Self.report
    ).compactMap(\.evidence).sorted { $0.key.precedes($1.key) }
  }

  private static func report(_ row: SQLRow) throws -> StoredReport {
    let until: Date? = try row.get(10)
    var evidence: SubscriptionEvidence?
    if let text: String = try row.get(4) {
      evidence = try storeEvidence(row, key: 0, text: text, unlocks: row.get(5), times: 6)
      evidence?.provisionalUntil = until
    }
    return StoredReport(
      key: try row.key(0), user: try row.get(3, as: UserID?.self) ?? row.get(2),
      events: try StoredForm.decoded([StoreEvent].self, row.get(8)), evidence: evidence, at: try row.get(6),
      reportedAt: try row.get(9), until: until, dueAt: try row.get(11), attempts: try row.get(12))
  }

  func save(_ report: StoredReport) throws {
    changes.invalidate(report.user)
    try execute(
      """
      INSERT INTO revenuecat_report
        (environment, original_transaction_id, user_id, events, evidence, unlocks, evidence_at, judged_at, reported_at,
         until, due_at, attempts)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (environment, original_transaction_id) DO UPDATE SET
        user_id = excluded.user_id, events = excluded.events, evidence = excluded.evidence, unlocks = excluded.unlocks,
        evidence_at = excluded.evidence_at, judged_at = excluded.judged_at, until = excluded.until,
        due_at = excluded.due_at, attempts = excluded.attempts
      """, report.key.environment, report.key.originalTransactionID, report.user.key,
      StoredForm.encoded(report.events), report.evidence.map { try StoredForm.text($0) },
      report.evidence.flatMap { try $0.storedUnlocks }, report.at, report.evidence?.evaluatedAt ?? report.at,
      report.reportedAt, report.until, report.dueAt, report.attempts)
  }

  func removeReport(_ key: SubscriptionKey) throws {
    try execute(
      "DELETE FROM revenuecat_report WHERE environment = ? AND original_transaction_id = ?", key.environment,
      key.originalTransactionID)
  }

  // MARK: Transfers

  func add(_ transfer: StoreTransfer) throws {
    try execute(
      """
      INSERT INTO revenuecat_transfer (from_user_id, id, to_user_id, at, is_of_inactive) VALUES (?, ?, ?, ?, ?)
      ON CONFLICT (from_user_id, id) DO NOTHING
      """, transfer.from.key, transfer.id, transfer.to.key, transfer.at, transfer.isOfInactive)
  }

  /// The transfers of a user, and of those to whom these lead.
  func transfers(from user: UserID) throws -> [StoreTransfer] {
    var found: [StoreTransfer] = []
    var seen: Set<String> = [user.key]
    var next = [user.key]
    // A chain of people, each of whom had the last one's purchases.
    while let key = next.popLast(), found.count < 1_000 {
      let transfers = try all(
        "SELECT id, at, from_user_id, to_user_id, is_of_inactive FROM revenuecat_transfer WHERE from_user_id = ? LIMIT 1000",
        key
      ) { row in
        StoreTransfer(
          id: try row.get(0), at: try row.get(1), from: try row.get(2), to: try row.get(3),
          isOfInactive: try row.get(4))
      }
      found += transfers
      for transfer in transfers where seen.insert(transfer.to.key).inserted { next.append(transfer.to.key) }
    }
    return found
  }
}

extension SubscriptionEvidence {
  fileprivate var storedUnlocks: String? {
    get throws {
      guard !unlocks.isEmpty else { return nil }
      return try StoredForm.encoded(
        Dictionary(uniqueKeysWithValues: unlocks.map { ($0.key.rawValue, $0.value) }))
    }
  }
}

extension RevenueCatReport.Store: StoredWord {}
