package import Entitlements
internal import struct FoundationEssentials.Date

/// Purchases at other stores, as RevenueCat reports them.
package struct OtherStoreTable: LedgerTable {
  package let tables: LedgerTables

  struct RevenueCatPurchase {
    /// Negative; `nil` before it is saved.
    var id: Int64?
    var owner: UserID
    var events: [StoreEvent]
    var evidence: SubscriptionEvidence
    var dueAt: Date?
  }

  private static let revenueCatColumns = "user_id, events, evidence, unlocks, evidence_at, judged_at, due_at"
  private static let revenueCatRow = """
    SELECT id, environment, original_transaction_id, account.spelling, \(revenueCatColumns)
    FROM revenuecat_purchase LEFT JOIN account ON account.key = user_id
    """
  private static let revenueCatByKey = SQL("\(revenueCatRow) WHERE environment = ? AND original_transaction_id = ?")
  private static let revenueCatByID = SQL("\(revenueCatRow) WHERE id = ?")
  private static let insertRevenueCat = SQL.insert(
    "revenuecat_purchase", "id, environment, original_transaction_id, \(revenueCatColumns)")
  private static let updateRevenueCat = SQL.update("revenuecat_purchase", revenueCatColumns, "WHERE id = ?")

  func purchase(_ key: SubscriptionKey) throws -> RevenueCatPurchase? {
    try first(Self.revenueCatByKey, key, read: Self.revenueCatPurchase)
  }

  func purchase(id: Int64) throws -> RevenueCatPurchase? {
    try first(Self.revenueCatByID, id, read: Self.revenueCatPurchase)
  }

  /// A purchase at whichever store, with its owner and with the transactions and bought ends that its evidence no longer has;
  /// `nil` for one that is gone.
  package func countable(_ id: Int64) throws -> (evidence: SubscriptionEvidence, owner: UserID)? {
    guard id < 0 else {
      let purchase = try tables.purchases.purchase(id: id)
      return (purchase.evidence.including(past: try tables.pastTransactions.transactions(of: id)), purchase.owner)
    }
    guard var purchase = try purchase(id: id) else { return nil }
    purchase.evidence.boughtEnds = SubscriptionEvidence.boughtEnds(purchase.events, of: purchase.evidence.key)
    return (purchase.evidence, purchase.owner)
  }

  private static func revenueCatPurchase(_ row: SQLRow) throws -> RevenueCatPurchase {
    RevenueCatPurchase(
      id: try row.get(0), owner: try row.get(3, as: UserID?.self) ?? row.get(4),
      events: try StoredForm.decoded([StoreEvent].self, row.get(5)),
      evidence: try storeEvidence(row, key: 1, text: row.get(6), unlocks: row.get(7), times: 8),
      dueAt: try row.get(10))
  }

  private static func storeEvidence(
    _ row: SQLRow, key: Int, text: String, unlocks: String?, times: Int
  ) throws -> SubscriptionEvidence {
    var evidence = try StoredForm.evidence(
      text, of: row.get(key), source: .revenuecat, evidenceAt: row.get(times), evaluatedAt: row.get(times + 1))
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

  /// - Returns: the row's ID.
  func save(_ purchase: RevenueCatPurchase) throws -> Int64 {
    let evidence = purchase.evidence
    changes.invalidate(purchase.owner)
    func write<each Value: SQLValue>(_ values: repeat each Value) throws -> Int64 {
      if let id = purchase.id {
        try tables.marks.markFigures(of: id)
        try execute(Self.updateRevenueCat, repeat each values, id)
        return id
      }
      let id: Int64? = try first("SELECT coalesce(min(id), 0) - 1 FROM revenuecat_purchase")
      guard let id else { throw StoredForm.Unstorable() }
      try tables.marks.markFigures(of: id)
      try execute(Self.insertRevenueCat, id, evidence.key, repeat each values)
      return id
    }
    return try write(
      purchase.owner.key, StoredForm.encoded(purchase.events), StoredForm.text(evidence), evidence.storedUnlocks,
      evidence.evidenceTime, evidence.evaluatedAt, purchase.dueAt)
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

  private static func reports(_ rest: String, spelling: String = "account.spelling", events: String = "events") -> SQL {
    SQL(
      """
      SELECT environment, original_transaction_id, user_id, \(spelling), evidence, unlocks, evidence_at, judged_at,
        \(events), reported_at, until, due_at, attempts
      FROM revenuecat_report \(rest)
      """)
  }

  private static let reportByKey = reports(
    "LEFT JOIN account ON account.key = user_id WHERE environment = ? AND original_transaction_id = ?")
  private static let reportsOfUser = reports(
    "WHERE user_id = ? AND until IS NOT NULL", spelling: "NULL", events: "'[]'")
  private static let upsertReport = SQL.upsert(
    "revenuecat_report", key: "environment, original_transaction_id", first: "reported_at",
    "user_id, events, evidence, unlocks, evidence_at, judged_at, until, due_at, attempts")

  func report(_ key: SubscriptionKey) throws -> StoredReport? { try first(Self.reportByKey, key, read: Self.report) }

  /// - Returns: `unreadable`: reports whose time has come and that cannot be read. They are due again later, so that they hold up
  ///   no other.
  func reports(dueAt now: Date, limit: Int) throws -> (due: [StoredReport], unreadable: [SubscriptionKey]) {
    let keys = try all(
      "SELECT environment, original_transaction_id FROM revenuecat_report WHERE due_at <= ? ORDER BY due_at LIMIT ?",
      now, max(0, limit)
    ) { row in try row.get(0, as: SubscriptionKey.self) }
    var due: [StoredReport] = []
    let unreadable = try tables.skippingUnreadable(keys) { key in
      if let report = try report(key) { due.append(report) }
    }
    for key in unreadable { try putOff(key, at: now) }
    return (due, unreadable)
  }

  /// Makes a report that cannot be read due a day later.
  func putOff(_ key: SubscriptionKey, at now: Date) throws {
    try execute(
      "UPDATE revenuecat_report SET due_at = ? WHERE environment = ? AND original_transaction_id = ?",
      StoredForm.milliseconds(now) + RecheckSchedule.unreadable, key)
  }

  /// The reports that count for a user, in the order of `SubscriptionKey.precedes`.
  func reportedEvidence(of user: UserID) throws -> [SubscriptionEvidence] {
    try all(Self.reportsOfUser, user.key, read: Self.report).compactMap(\.evidence)
      .sorted { $0.key.precedes($1.key) }
  }

  private static func report(_ row: SQLRow) throws -> StoredReport {
    let until: Date? = try row.get(10)
    var evidence: SubscriptionEvidence?
    if let text: String = try row.get(4) {
      evidence = try storeEvidence(row, key: 0, text: text, unlocks: row.get(5), times: 6)
      evidence?.provisionalUntil = until
    }
    return StoredReport(
      key: try row.get(0), user: try row.get(3, as: UserID?.self) ?? row.get(2),
      events: try StoredForm.decoded([StoreEvent].self, row.get(8)), evidence: evidence, at: try row.get(6),
      reportedAt: try row.get(9), until: until, dueAt: try row.get(11), attempts: try row.get(12))
  }

  func save(_ report: StoredReport) throws {
    changes.invalidate(report.user)
    try execute(
      Self.upsertReport, report.key, report.reportedAt, report.user.key, StoredForm.encoded(report.events),
      report.evidence.map { try StoredForm.text($0) }, report.evidence.flatMap { try $0.storedUnlocks }, report.at,
      report.evidence?.evaluatedAt ?? report.at, report.until, report.dueAt, report.attempts)
  }

  func removeReport(_ key: SubscriptionKey) throws {
    try execute("DELETE FROM revenuecat_report WHERE environment = ? AND original_transaction_id = ?", key)
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
