internal import Entitlements
internal import struct FoundationEssentials.Date

extension LedgerTables {
  // MARK: Notifications

  func hasNotification(_ uuid: String) throws -> Bool {
    try row("SELECT 1 FROM notification WHERE uuid = \(uuid)") != nil
  }

  func append(
    _ entry: NotificationEntry, about key: SubscriptionKey?, outcome: NotificationLine.Outcome, user: UserID?
  ) throws {
    let payload = entry.payload.utf8.count <= NotificationEntry.payloadLimit ? entry.payload : nil
    try execute(
      """
      INSERT INTO notification
        (uuid, type, subtype, environment, bundle_id, original_transaction_id, signed_at, received_at, outcome, user_id,
         payload)
      VALUES
        (\(entry.uuid), \(entry.type), \(entry.subtype), \((key?.environment ?? entry.environment)?.rawValue),
         \(entry.bundleID?.rawValue), \(key?.originalTransactionID.rawValue),
         \(try entry.signedAt.map(StoredForm.milliseconds)), \(try StoredForm.milliseconds(entry.receivedAt)),
         \(outcome.rawValue), \(user?.rawValue), \(payload))
      """)
  }

  func notifications(of key: SubscriptionKey, limit: Int) throws -> [NotificationLine] {
    try rows(
      """
      SELECT uuid, type, subtype, signed_at, received_at, outcome, user_id FROM notification
      WHERE environment = \(key.environment.rawValue)
        AND original_transaction_id = \(key.originalTransactionID.rawValue)
      ORDER BY received_at DESC, rowid DESC LIMIT \(max(0, limit))
      """
    ).map { row in
      let outcome: String = try row.decode(forColumn: "outcome")
      guard let outcome = NotificationLine.Outcome(rawValue: outcome) else { throw StoredForm.Unstorable() }
      return NotificationLine(
        uuid: try row.decode(forColumn: "uuid"), type: try row.decode(forColumn: "type"),
        subtype: try row.decode(forColumn: "subtype"),
        signedAt: try row.decode(Int64?.self, forColumn: "signed_at").map(StoredForm.date),
        receivedAt: StoredForm.date(try row.decode(forColumn: "received_at")), outcome: outcome,
        user: try row.decode(String?.self, forColumn: "user_id").map { UserID($0) })
    }
  }

  func hasNotifications(before: Date) throws -> Bool {
    let before = try StoredForm.milliseconds(before)
    return try row("SELECT 1 FROM notification WHERE received_at < \(before) LIMIT 1") != nil
      || row("SELECT 1 FROM refused_notification WHERE received_at < \(before) LIMIT 1") != nil
  }

  /// - Returns: how many accepted notifications were deleted.
  func pruneNotifications(before: Date, limit: Int) throws -> Int {
    let before = try StoredForm.milliseconds(before)
    let limit = max(0, limit)
    try execute(
      """
      DELETE FROM refused_notification WHERE id IN
        (SELECT id FROM refused_notification WHERE received_at < \(before) ORDER BY received_at LIMIT \(limit))
      """)
    try execute(
      """
      DELETE FROM notification WHERE rowid IN
        (SELECT rowid FROM notification WHERE received_at < \(before) ORDER BY received_at LIMIT \(limit))
      """)
    return statements.changesCount
  }

  func hasRefused(_ digest: ReceiptDigest) throws -> Bool {
    try row("SELECT 1 FROM refused_notification WHERE sha256 = \(digest.bytes)") != nil
  }

  func note(_ refused: RefusedNotification, payload: String, digest: ReceiptDigest) throws {
    guard try !hasRefused(digest) else { return }
    try execute(
      """
      INSERT INTO refused_notification (sha256, problem, payload, received_at, is_signed)
      VALUES (\(digest.bytes), \(refused.problem), \(payload),
              \(try StoredForm.milliseconds(refused.receivedAt)), \(refused.isSigned ? 1 : 0))
      """)
    // Limits its kind; other kinds stay.
    try execute(
      """
      DELETE FROM refused_notification WHERE is_signed = \(refused.isSigned ? 1 : 0) AND id <=
        (SELECT id FROM refused_notification WHERE is_signed = \(refused.isSigned ? 1 : 0)
         ORDER BY id DESC LIMIT 1 OFFSET \(RefusedNotification.limit))
      """)
  }

  // MARK: Unclaimed purchases

  struct StoredUnclaimed {
    var evidence: SubscriptionEvidence
    var evidenceAt: Int64
    var evaluatedAt: Int64
    /// The text of the `evidence` column.
    var rows: String
    var bundleID: String?
    var proof: String?
    var proofAt: Int64?

    /// The proof in the form stored with a purchase.
    var receipt: KeptReceipt? {
      guard let proof, let bundleID else { return nil }
      return KeptReceipt(base64: proof, environment: evidence.key.environment, bundleID: BundleID(bundleID))
    }
  }

  func unclaimed(_ key: SubscriptionKey) throws -> StoredUnclaimed? {
    try row(
      """
      SELECT * FROM unclaimed_evidence
      WHERE environment = \(key.environment.rawValue)
        AND original_transaction_id = \(key.originalTransactionID.rawValue)
      """
    ).map(Self.unclaimed)
  }

  /// Purchases that name a user, in the order of `SubscriptionKey.precedes`.
  func unclaimed(naming user: UserID) throws -> [StoredUnclaimed] {
    guard let token = user.accountToken else { return [] }
    return try rows("SELECT * FROM unclaimed_evidence WHERE account_token = \(token) LIMIT \(Self.claimsAtOnce)")
      .map(Self.unclaimed)
      .sorted { $0.evidence.key.precedes($1.evidence.key) }
  }

  /// The most purchases that one record claims by name; the next record claims the rest.
  static let claimsAtOnce = 50

  func save(_ unclaimed: StoredUnclaimed, seenAt: Int64) throws {
    let evidence = unclaimed.evidence
    try execute(
      """
      INSERT INTO unclaimed_evidence
        (environment, original_transaction_id, source, evidence_at, judged_at, evidence, account_token, bundle_id, proof,
         proof_at, first_seen_at, last_seen_at)
      VALUES
        (\(evidence.key.environment.rawValue), \(evidence.key.originalTransactionID.rawValue),
         \(evidence.source.rawValue), \(unclaimed.evidenceAt), \(unclaimed.evaluatedAt), \(unclaimed.rows),
         \(evidence.accountToken), \(unclaimed.bundleID), \(unclaimed.proof), \(unclaimed.proofAt), \(seenAt), \(seenAt))
      ON CONFLICT (environment, original_transaction_id) DO UPDATE SET
        source = excluded.source, evidence_at = excluded.evidence_at, judged_at = excluded.judged_at,
        evidence = excluded.evidence, account_token = excluded.account_token, bundle_id = excluded.bundle_id,
        proof = excluded.proof, proof_at = excluded.proof_at, last_seen_at = max(last_seen_at, excluded.last_seen_at)
      """)
  }

  func removeUnclaimed(_ key: SubscriptionKey) throws {
    try execute(
      """
      DELETE FROM unclaimed_evidence
      WHERE environment = \(key.environment.rawValue)
        AND original_transaction_id = \(key.originalTransactionID.rawValue)
      """)
  }

  private static func unclaimed(_ row: StoredRow) throws -> StoredUnclaimed {
    let environment: String = try row.decode(forColumn: "environment")
    let source: String = try row.decode(forColumn: "source")
    guard let environment = StoreEnvironment(rawValue: environment), let source = EvidenceSource(rawValue: source)
    else { throw StoredForm.Unstorable() }
    let evidenceAt: Int64 = try row.decode(forColumn: "evidence_at")
    let evaluatedAt: Int64 = try row.decode(forColumn: "judged_at")
    let text: String = try row.decode(forColumn: "evidence")
    let key = SubscriptionKey(
      environment: environment,
      originalTransactionID: OriginalTransactionID(try row.decode(String.self, forColumn: "original_transaction_id")))
    return StoredUnclaimed(
      evidence: try StoredForm.value(StoredForm.Rows.self, text).evidence(
        of: key, source: source, evidenceAt: evidenceAt, evaluatedAt: evaluatedAt),
      evidenceAt: evidenceAt, evaluatedAt: evaluatedAt, rows: text, bundleID: try row.decode(forColumn: "bundle_id"),
      proof: try row.decode(forColumn: "proof"), proofAt: try row.decode(forColumn: "proof_at"))
  }

  // MARK: Rechecks out of turn

  /// - Returns: the number of subscriptions with the ID: one per store.
  func recheckSoon(_ id: OriginalTransactionID, at now: Int64) throws -> Int {
    try execute(
      """
      INSERT INTO recheck (environment, original_transaction_id, scheduled_at, due_at, attempts)
      SELECT environment, original_transaction_id, \(now), \(now), 0 FROM subscription
        WHERE environment IN (\(StoreEnvironment.production.rawValue), \(StoreEnvironment.sandbox.rawValue))
          AND original_transaction_id = \(id.rawValue)
      ON CONFLICT (environment, original_transaction_id) DO UPDATE SET
        scheduled_at = min(scheduled_at, excluded.scheduled_at), due_at = min(due_at, excluded.due_at), attempts = 0
      """)
    return statements.changesCount
  }

  /// Subscriptions without a scheduled check, in the order of the primary key.
  /// - Parameter key: where to continue; `nil` begins at the start.
  func unscheduled(after key: SubscriptionKey?, limit: Int) throws -> [StoredSubscription] {
    try rows(
      """
      SELECT * FROM subscription
      WHERE (environment, original_transaction_id)
          > (\(key?.environment.rawValue ?? ""), \(key?.originalTransactionID.rawValue ?? ""))
        AND NOT EXISTS (
          SELECT 1 FROM recheck
          WHERE recheck.environment = subscription.environment
            AND recheck.original_transaction_id = subscription.original_transaction_id)
      ORDER BY environment, original_transaction_id LIMIT \(max(1, limit))
      """
    ).map(Self.subscription)
  }
}
