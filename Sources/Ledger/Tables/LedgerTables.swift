internal import Entitlements
internal import struct FoundationEssentials.Date
internal import GRDB

/// The statements on the ledger's tables, one function per purpose. They run inside the caller's transaction.
struct LedgerTables: Sendable {
  let statements: LedgerStatements

  init(_ statements: LedgerStatements) { self.statements = statements }

  /// For a connection that is lent for one call.
  init(db: Database) { self.init(LedgerStatements(db)) }

  /// How the owner of a subscription acquired it.
  enum Claim: String {
    /// The owner presented a receipt or a signed transaction, or a person decided so.
    case proof
    /// The purchase names the owner, and no user had presented proof.
    case accountToken = "account_token"
  }

  struct StoredSubscription {
    var evidence: SubscriptionEvidence
    var owner: UserID
    var receiptID: Int64
    var evidenceAt: Int64
    var evaluatedAt: Int64
    /// The text of the `evidence` column.
    var rows: String
    var claim: Claim
  }

  struct StoredProfile {
    var version: Int64
    var entitlement: Entitlement
  }

  struct HistoryLine {
    var user: UserID
    var version: Int64
    var recordedAt: Int64
    var requestID: String
    var changed: Bool
    var entitlement: String
    var digest: ReceiptDigest
    var evidenceAt: Int64?
    /// The support note that caused the verdict.
    var note: NoteID?
  }

  // MARK: Subscriptions

  func subscription(_ key: SubscriptionKey) throws -> StoredSubscription? {
    try row(
      """
      SELECT * FROM subscription
      WHERE environment = \(key.environment.rawValue)
        AND original_transaction_id = \(key.originalTransactionID.rawValue)
      """
    ).map(Self.subscription)
  }

  /// All evidence that counts for a user: Apple's first, then provisional grants, each in the order of
  /// `SubscriptionKey.precedes`.
  func evidence(of user: UserID) throws -> [SubscriptionEvidence] {
    try subscriptions(of: user).map(\.evidence) + provisionalEvidence(of: user)
  }

  /// A user's subscriptions, in the order of `SubscriptionKey.precedes`.
  /// - Parameter known: keys to skip.
  func subscriptions(of user: UserID, without known: Set<SubscriptionKey> = []) throws -> [StoredSubscription] {
    try user.spellings.flatMap { name in try rows("SELECT * FROM subscription WHERE user_id = \(name)") }
      .filter { try known.isEmpty || !known.contains(Self.key($0)) }
      .map(Self.subscription)
      .sorted { $0.evidence.key.precedes($1.evidence.key) }
  }

  func save(_ stored: StoredSubscription) throws {
    let evidence = stored.evidence
    try execute(
      """
      INSERT INTO subscription
        (environment, original_transaction_id, user_id, receipt_id, source, evidence_at, judged_at, account_gone,
         evidence, claim)
      VALUES
        (\(evidence.key.environment.rawValue), \(evidence.key.originalTransactionID.rawValue),
         \(stored.owner.rawValue), \(stored.receiptID), \(evidence.source.rawValue), \(stored.evidenceAt),
         \(stored.evaluatedAt), \(evidence.isAccountGone), \(stored.rows), \(stored.claim.rawValue))
      ON CONFLICT (environment, original_transaction_id) DO UPDATE SET
        user_id = excluded.user_id, receipt_id = excluded.receipt_id, source = excluded.source,
        evidence_at = excluded.evidence_at, judged_at = excluded.judged_at, account_gone = excluded.account_gone,
        evidence = excluded.evidence, claim = excluded.claim
      """)
  }

  static func key(_ row: StoredRow) throws -> SubscriptionKey {
    let environment: String = try row.decode(forColumn: "environment")
    guard let environment = StoreEnvironment(rawValue: environment) else { throw StoredForm.Unstorable() }
    return SubscriptionKey(
      environment: environment,
      originalTransactionID: OriginalTransactionID(try row.decode(String.self, forColumn: "original_transaction_id")))
  }

  static func subscription(_ row: StoredRow) throws -> StoredSubscription {
    let source: String = try row.decode(forColumn: "source")
    let claim: String = try row.decode(forColumn: "claim")
    guard let source = EvidenceSource(rawValue: source), let claim = Claim(rawValue: claim)
    else { throw StoredForm.Unstorable() }
    let evidenceAt: Int64 = try row.decode(forColumn: "evidence_at")
    let evaluatedAt: Int64 = try row.decode(forColumn: "judged_at")
    let text: String = try row.decode(forColumn: "evidence")
    let owner: String = try row.decode(forColumn: "user_id")
    let rows = try StoredForm.value(StoredForm.Rows.self, text)
    return StoredSubscription(
      evidence: rows.evidence(
        of: try key(row), source: source, evidenceAt: evidenceAt, evaluatedAt: evaluatedAt,
        isAccountGone: try row.decode(forColumn: "account_gone")),
      owner: UserID(owner),
      receiptID: try row.decode(forColumn: "receipt_id"),
      evidenceAt: evidenceAt,
      evaluatedAt: evaluatedAt,
      rows: text,
      claim: claim)
  }

  func log(
    change key: SubscriptionKey, from: UserID?, to: UserID, recordedAt: Int64, requestID: String, note: NoteID? = nil
  ) throws {
    try execute(
      """
      INSERT INTO ownership_change
        (environment, original_transaction_id, from_user_id, to_user_id, recorded_at, request_id, note_sequence)
      VALUES
        (\(key.environment.rawValue), \(key.originalTransactionID.rawValue), \(from?.rawValue), \(to.rawValue),
         \(recordedAt), \(requestID), \(note?.sequence))
      """)
  }

  // MARK: Receipts

  /// - Returns: the receipt's row, new or existing.
  func save(_ receipt: KeptReceipt, digest: ReceiptDigest, seenAt: Int64) throws -> Int64 {
    let sha256 = digest.bytes
    let saved = try row(
      """
      INSERT INTO receipt (sha256, base64, environment, bundle_id, first_seen_at, last_seen_at)
      VALUES (\(sha256), \(receipt.base64), \(receipt.environment.rawValue), \(receipt.bundleID.rawValue),
              \(seenAt), \(seenAt))
      ON CONFLICT (sha256, environment, bundle_id) DO UPDATE SET last_seen_at = max(last_seen_at, excluded.last_seen_at)
      RETURNING id
      """)
    guard let saved else { throw StoredForm.Unstorable() }
    return try saved.decode(forColumn: "id")
  }

  func receiptID(of receipt: KeptReceipt, digest: ReceiptDigest) throws -> Int64? {
    try row(
      """
      SELECT id FROM receipt
      WHERE sha256 = \(digest.bytes) AND environment = \(receipt.environment.rawValue)
        AND bundle_id = \(receipt.bundleID.rawValue)
      """
    ).map { try $0.decode(forColumn: "id") }
  }

  /// Deletes a receipt without subscriptions.
  func pruneReceipt(_ id: Int64) throws {
    try execute(
      """
      DELETE FROM receipt
      WHERE id = \(id) AND NOT EXISTS (SELECT 1 FROM subscription WHERE receipt_id = \(id))
      """)
  }

  func knowledge(of digest: ReceiptDigest, for user: UserID) throws -> ReceiptKnowledge {
    let sha256 = digest.bytes
    let names = user.spellings
    let isEvaluated = try names.contains { name in
      try row("SELECT 1 FROM history WHERE user_id = \(name) AND receipt_sha256 = \(sha256) LIMIT 1") != nil
    }
    let proves = try names.flatMap { name in
      try rows(
        """
        SELECT subscription.* FROM subscription JOIN receipt ON receipt.id = subscription.receipt_id
        WHERE subscription.user_id = \(name) AND receipt.sha256 = \(sha256)
        """
      ).map { try Self.subscription($0).evidence.key }
    }
    // A verdict on a queued receipt did not come from Apple.
    let waits = try names.contains { name in
      try row("SELECT 1 FROM pending_receipt WHERE user_id = \(name) AND sha256 = \(sha256)") != nil
    }
    return ReceiptKnowledge(wasEvaluated: !proves.isEmpty || isEvaluated && !waits, proves: Set(proves))
  }

  func receipts(mentioning id: OriginalTransactionID) throws -> [KeptReceipt] {
    try rows(
      """
      SELECT receipt.base64, receipt.environment, receipt.bundle_id, subscription.user_id, subscription.claim
      FROM subscription JOIN receipt ON receipt.id = subscription.receipt_id
      WHERE subscription.environment IN (\(StoreEnvironment.production.rawValue), \(StoreEnvironment.sandbox.rawValue))
        AND subscription.original_transaction_id = \(id.rawValue)
      ORDER BY subscription.environment
      """
    ).map { row in
      let environment: String = try row.decode(forColumn: "environment")
      let bundleID: String = try row.decode(forColumn: "bundle_id")
      let owner: String = try row.decode(forColumn: "user_id")
      guard let environment = StoreEnvironment(rawValue: environment) else { throw StoredForm.Unstorable() }
      var kept = KeptReceipt(
        base64: try row.decode(forColumn: "base64"), environment: environment, bundleID: BundleID(bundleID),
        owner: UserID(owner))
      kept.isOwnedByName = try row.decode(String.self, forColumn: "claim") == Claim.accountToken.rawValue
      return kept
    }
  }

  // MARK: Users

  /// The stored spelling of a user's ID: a UUID is the same in capitals.
  ///
  /// The first spelling stays: the history is not rewritten, and the app's row may be found by it alone. For a user who
  /// has profiles under both spellings, from before they were treated as equal, it is the one evaluated last.
  func name(of user: UserID) throws -> UserID {
    guard let uuid = user.accountToken else { return user }
    let capitals = uuid.uppercased()
    let known = try rows(
      "SELECT user_id, recorded_at FROM profile WHERE user_id IN (\(user.rawValue), \(uuid), \(capitals))"
    ).map { row in
      (
        at: try row.decode(Int64.self, forColumn: "recorded_at"),
        name: try row.decode(String.self, forColumn: "user_id")
      )
    }
    if let last = known.max(by: <) { return UserID(last.name) }
    return user.rawValue == capitals ? user : UserID(uuid)
  }

  // MARK: Verdicts

  func profile(of user: UserID) throws -> StoredProfile? {
    try row("SELECT version, entitlement FROM profile WHERE user_id = \(user.rawValue)").map(Self.profile)
  }

  /// The verdict on a user, and the write state of the app's row.
  func standing(of user: UserID) throws -> (profile: StoredProfile, write: ProfileWriteState)? {
    try row(
      """
      SELECT profile.version, profile.entitlement, profile_update.state
      FROM profile LEFT JOIN profile_update USING (user_id) WHERE profile.user_id = \(user.rawValue)
      """
    ).map { (try Self.profile($0), try Self.state($0)) }
  }

  private static func profile(_ row: StoredRow) throws -> StoredProfile {
    StoredProfile(
      version: try row.decode(forColumn: "version"),
      entitlement: try StoredForm.value(Entitlement.self, try row.decode(forColumn: "entitlement")))
  }

  func save(_ entitlement: Entitlement, text: String, of user: UserID, version: Int64, recordedAt: Int64) throws {
    try execute(
      """
      INSERT INTO profile (user_id, version, tier, status, access_until, expires_at, entitlement, recorded_at)
      VALUES
        (\(user.rawValue), \(version), \(entitlement.tier.rawValue), \(entitlement.status.rawValue),
         \(try entitlement.accessUntil.map(StoredForm.milliseconds)),
         \(try entitlement.expiresAt.map(StoredForm.milliseconds)), \(text), \(recordedAt))
      ON CONFLICT (user_id) DO UPDATE SET
        version = excluded.version, tier = excluded.tier, status = excluded.status,
        access_until = excluded.access_until, expires_at = excluded.expires_at, entitlement = excluded.entitlement,
        recorded_at = excluded.recorded_at
      """)
  }

  func append(_ line: HistoryLine) throws {
    try execute(
      """
      INSERT INTO history
        (user_id, version, recorded_at, request_id, changed, entitlement, receipt_sha256, evidence_at, note_sequence)
      VALUES
        (\(line.user.rawValue), \(line.version), \(line.recordedAt), \(line.requestID), \(line.changed),
         \(line.entitlement), \(line.digest.bytes), \(line.evidenceAt), \(line.note?.sequence))
      """)
  }

  func history(of user: UserID, before: Int64?, limit: Int) throws -> [HistoryEntry] {
    try verdicts(of: user, below: before ?? Int64.max, limit: limit).map(\.entry)
  }

  /// A user's newest verdicts before a position in the history of all users.
  ///
  /// A user's versions grow with the sequence, and are what the index has. The query starts from the version at the
  /// position, if that is one of this user's verdicts; otherwise from the newest, and skips in the index those that are
  /// not below it.
  func verdicts(
    of user: UserID, below sequence: Int64, limit: Int
  ) throws -> [(entry: HistoryEntry, note: Int64?)] {
    try rows(
      """
      SELECT sequence, recorded_at, request_id, entitlement, changed, note_sequence FROM history
      WHERE user_id = \(user.rawValue) AND +sequence < \(sequence)
        AND version < coalesce(
          (SELECT version FROM history WHERE sequence = \(sequence) AND user_id = \(user.rawValue)), \(Int64.max))
      ORDER BY version DESC LIMIT \(max(0, limit))
      """
    ).map { row in (try Self.historyEntry(row), try row.decode(forColumn: "note_sequence")) }
  }

  private static func historyEntry(_ row: StoredRow) throws -> HistoryEntry {
    HistoryEntry(
      sequence: try row.decode(forColumn: "sequence"),
      recordedAt: StoredForm.date(try row.decode(forColumn: "recorded_at")),
      requestID: try row.decode(forColumn: "request_id"),
      entitlement: try StoredForm.value(Entitlement.self, try row.decode(forColumn: "entitlement")),
      changed: try row.decode(forColumn: "changed"))
  }

  func beat() throws {
    try execute("UPDATE heartbeat SET beats = beats + 1 WHERE id = 1")
    guard statements.changesCount == 1 else { throw StoredForm.Unstorable() }
  }

  func readBeat() throws {
    guard try row("SELECT beats FROM heartbeat WHERE id = 1") != nil else { throw StoredForm.Unstorable() }
  }

  /// Whether every page, index, constraint and foreign key is sound.
  func isSound() throws -> Bool {
    let problems = try rows("PRAGMA integrity_check(1)").map { row -> String in try row.decode(atIndex: 0) }
    return try problems == ["ok"] && rows("PRAGMA foreign_key_check").isEmpty
  }

  // MARK: Statements

  func execute(_ sql: LedgerSQL) throws { try statements.execute(sql) }

  func rows(_ sql: LedgerSQL) throws -> [StoredRow] { try statements.rows(sql) }

  func row(_ sql: LedgerSQL) throws -> StoredRow? { try statements.row(sql) }
}

extension UserID {
  /// Stored spellings to look up: a UUID in small letters and in capitals, any other ID as it is.
  ///
  /// Each is looked up separately, as `IN` of a list costs SQLite a temporary table.
  var spellings: [String] {
    guard let uuid = accountToken else { return [rawValue] }
    return [rawValue, rawValue == uuid ? uuid.uppercased() : uuid]
  }
}
