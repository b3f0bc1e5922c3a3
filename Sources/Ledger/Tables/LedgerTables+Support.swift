internal import Entitlements
internal import struct FoundationEssentials.Date

extension LedgerTables {
  // MARK: Notes

  /// - Parameter user: the subject of the inquiry; `nil` for a note on a change of owner, which is listed with that
  ///   change.
  func keep(_ note: Note, about user: UserID?) throws -> NoteID {
    try execute(
      """
      INSERT INTO note (user_id, author, text, recorded_at, request_id)
      VALUES (\(user?.rawValue), \(note.author), \(note.text), \(try StoredForm.milliseconds(note.recordedAt)),
              \(note.requestID))
      """)
    return NoteID(sequence: statements.lastInsertedRowID)
  }

  private func note(_ sequence: Int64?) throws -> Note? {
    guard let sequence else { return nil }
    return try row("SELECT * FROM note WHERE sequence = \(sequence)").map(Self.note)
  }

  private static func note(_ row: StoredRow) throws -> Note {
    Note(
      author: try row.decode(forColumn: "author"), text: try row.decode(forColumn: "text"),
      requestID: try row.decode(forColumn: "request_id"),
      recordedAt: StoredForm.date(try row.decode(forColumn: "recorded_at")))
  }

  // MARK: Purchases and who owns them

  func digest(ofReceipt id: Int64) throws -> ReceiptDigest {
    guard let row = try row("SELECT sha256 FROM receipt WHERE id = \(id)") else { throw StoredForm.Unstorable() }
    return ReceiptDigest(bytes: try row.decode(forColumn: "sha256"))
  }

  /// Receipts by newest evidence first.
  func receipts(of user: UserID, limit: Int) throws -> [OwnedReceipt] {
    // SQLite takes bare columns from the row that has the maximum.
    try rows(
      """
      SELECT receipt.base64, receipt.environment, receipt.bundle_id, subscription.original_transaction_id,
             max(subscription.evidence_at) AS newest
      FROM subscription JOIN receipt ON receipt.id = subscription.receipt_id
      WHERE subscription.user_id IN (\(user.rawValue), \(user.spellings.last))
      GROUP BY receipt.id ORDER BY newest DESC, receipt.id DESC LIMIT \(max(0, limit))
      """
    ).map { row in
      let environment: String = try row.decode(forColumn: "environment")
      guard let environment = StoreEnvironment(rawValue: environment) else { throw StoredForm.Unstorable() }
      return OwnedReceipt(
        receipt: KeptReceipt(
          base64: try row.decode(forColumn: "base64"), environment: environment,
          bundleID: BundleID(try row.decode(String.self, forColumn: "bundle_id")), owner: user),
        key: SubscriptionKey(
          environment: environment,
          originalTransactionID: OriginalTransactionID(
            try row.decode(String.self, forColumn: "original_transaction_id"))))
    }
  }

  func ownedPurchases(_ id: OriginalTransactionID) throws -> [OwnedPurchase] {
    try StoreEnvironment.allCases.compactMap { environment in
      let key = SubscriptionKey(environment: environment, originalTransactionID: id)
      guard let stored = try subscription(key) else { return nil }
      let changes = try rows(
        """
        SELECT * FROM ownership_change
        WHERE environment = \(environment.rawValue) AND original_transaction_id = \(id.rawValue)
        ORDER BY sequence DESC LIMIT \(OwnedPurchase.changeLimit)
        """
      ).map(change)
      return OwnedPurchase(evidence: stored.evidence, owner: stored.owner, changes: changes)
    }
  }

  private func change(_ row: StoredRow) throws -> OwnershipChange {
    let environment: String = try row.decode(forColumn: "environment")
    guard let environment = StoreEnvironment(rawValue: environment) else { throw StoredForm.Unstorable() }
    return OwnershipChange(
      key: SubscriptionKey(
        environment: environment,
        originalTransactionID: OriginalTransactionID(try row.decode(String.self, forColumn: "original_transaction_id"))),
      from: try row.decode(String?.self, forColumn: "from_user_id").map { UserID($0) },
      to: UserID(try row.decode(String.self, forColumn: "to_user_id")),
      recordedAt: StoredForm.date(try row.decode(forColumn: "recorded_at")),
      requestID: try row.decode(forColumn: "request_id"),
      note: try note(row.decode(forColumn: "note_sequence")))
  }

  // MARK: Searching

  /// Each query uses an index.
  func isKnown(_ user: UserID) throws -> Bool {
    try row("SELECT 1 FROM profile WHERE user_id = \(user.rawValue)") != nil
      || row("SELECT 1 FROM pending_receipt WHERE user_id = \(user.rawValue) LIMIT 1") != nil
      || row("SELECT 1 FROM note WHERE user_id = \(user.rawValue) LIMIT 1") != nil
  }

  /// The tables that store evidence.
  enum EvidenceTable: CaseIterable {
    case subscription
    case unclaimed
  }

  /// Searches one page of a table, from the newest row on.
  ///
  /// - Parameters:
  ///   - id: digits only.
  ///   - start: rows from here on are skipped.
  /// - Returns: the rows with such a transaction, and where the next page begins; zero at the end.
  func purchases(
    with id: TransactionID, in table: EvidenceTable, below start: Int64, limit: Int
  ) throws -> (keys: [SubscriptionKey], end: Int64) {
    let limit = max(1, limit)
    // The member as `StoredForm` writes it.
    let member = "\"transactionID\":\"\(id.rawValue)\""
    let first: StoredRow?
    switch table {
    case .subscription:
      first = try row(
        """
        SELECT coalesce(min(place), 0) AS place FROM
          (SELECT rowid AS place FROM subscription WHERE rowid < \(start) ORDER BY rowid DESC LIMIT \(limit))
        """)
    case .unclaimed:
      first = try row(
        """
        SELECT coalesce(min(place), 0) AS place FROM
          (SELECT rowid AS place FROM unclaimed_evidence WHERE rowid < \(start) ORDER BY rowid DESC LIMIT \(limit))
        """)
    }
    guard let end = try first?.decode(Int64.self, forColumn: "place"), end > 0 else { return ([], 0) }
    let found: [StoredRow]
    switch table {
    case .subscription:
      found = try rows(
        """
        SELECT environment, original_transaction_id FROM subscription
        WHERE rowid >= \(end) AND rowid < \(start) AND instr(evidence, \(member)) > 0
        """)
    case .unclaimed:
      found = try rows(
        """
        SELECT environment, original_transaction_id FROM unclaimed_evidence
        WHERE rowid >= \(end) AND rowid < \(start) AND instr(evidence, \(member)) > 0
        """)
    }
    return (try found.map(Self.key), end)
  }

  // MARK: The timeline

  /// Merges the three tables of a user's history. Each keeps its own order; events of the same moment, as of one
  /// transaction, are listed with the effect above its cause: verdict, change of owner, inquiry.
  ///
  /// - Parameter before: `nil` begins with the newest. Events written after that are on no later page.
  func timeline(of user: UserID, before: TimelinePosition?, limit: Int) throws -> TimelinePage {
    let limit = max(1, limit)
    let before = try before ?? end()
    var verdicts = try verdicts(of: user, below: before.verdict, limit: limit + 1)[...]
    var changes = try rows(
      """
      SELECT * FROM (
        SELECT * FROM (SELECT * FROM ownership_change WHERE from_user_id = \(user.rawValue)
          AND sequence < \(before.change) ORDER BY sequence DESC LIMIT \(limit + 1))
        UNION ALL
        SELECT * FROM (SELECT * FROM ownership_change WHERE to_user_id = \(user.rawValue)
          AND sequence < \(before.change) ORDER BY sequence DESC LIMIT \(limit + 1)))
      ORDER BY sequence DESC LIMIT \(limit + 1)
      """
    ).map { (sequence: try $0.decode(Int64.self, forColumn: "sequence"), change: try change($0)) }[...]
    var inquiries = try rows(
      """
      SELECT * FROM note WHERE user_id = \(user.rawValue) AND sequence < \(before.inquiry)
      ORDER BY sequence DESC LIMIT \(limit + 1)
      """
    ).map { (sequence: try $0.decode(Int64.self, forColumn: "sequence"), note: try Self.note($0)) }[...]

    var events: [TimelineEvent] = []
    var position = before
    while events.count < limit {
      let heads = [
        verdicts.first?.entry.recordedAt, changes.first?.change.recordedAt, inquiries.first?.note.recordedAt,
      ]
      let newest = heads.compactMap { $0 }.max()
      guard let newest else { break }
      if let verdict = verdicts.first, verdict.entry.recordedAt == newest {
        position.verdict = verdict.entry.sequence
        verdicts.removeFirst()
        // The next row of the page has the previous verdict; the last row needs a query.
        let previous = try verdicts.first ?? self.verdicts(of: user, below: position.verdict, limit: 1).first
        events.append(
          .verdict(verdict.entry, before: previous?.entry.entitlement, note: try note(verdict.note)))
      } else if let change = changes.first, change.change.recordedAt == newest {
        position.change = change.sequence
        changes.removeFirst()
        events.append(.ownership(change.change))
      } else if let inquiry = inquiries.popFirst() {
        position.inquiry = inquiry.sequence
        events.append(.inquiry(inquiry.note))
      }
    }
    let isEnd = verdicts.isEmpty && changes.isEmpty && inquiries.isEmpty
    return TimelinePage(events: events, next: isEnd ? nil : position)
  }

  /// A position after everything written so far.
  private func end() throws -> TimelinePosition {
    guard
      let row = try row(
        """
        SELECT (SELECT coalesce(max(sequence), 0) FROM history) AS verdict,
          (SELECT coalesce(max(sequence), 0) FROM ownership_change) AS change,
          (SELECT coalesce(max(sequence), 0) FROM note) AS inquiry
        """)
    else { throw StoredForm.Unstorable() }
    return TimelinePosition(
      verdict: try row.decode(Int64.self, forColumn: "verdict") + 1,
      change: try row.decode(Int64.self, forColumn: "change") + 1,
      inquiry: try row.decode(Int64.self, forColumn: "inquiry") + 1)
  }
}
