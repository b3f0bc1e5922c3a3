internal import Entitlements
internal import struct FoundationEssentials.Date

extension LedgerTables {
  /// The most queued receipts of one user: far more than an app has reason to post, and too few to fill a disk.
  static let pendingPerUser = 20
  /// The most queued bytes of one user: one receipt of the greatest size, or twenty of the usual size.
  static let pendingBytesPerUser = 4 << 20
  /// The most queued bytes of all users, so that many users together cannot fill the disk.
  static let pendingBytes = 1 << 30

  /// The outcome of queueing a receipt.
  enum Place {
    /// The receipt's row, new or existing.
    case row(Int64)
    case tooMany
    case full
  }

  struct StoredPending {
    var user: UserID
    var digest: ReceiptDigest
    var requestID: String
  }

  func postpone(_ receipt: PendingReceipt, digest: ReceiptDigest) throws -> Place {
    let sha256 = digest.bytes
    let user = receipt.user.rawValue
    if let known = try row("SELECT id FROM pending_receipt WHERE user_id = \(user) AND sha256 = \(sha256)") {
      return .row(try known.decode(forColumn: "id"))
    }
    // Base64 has as many bytes as characters.
    let size = receipt.base64.utf8.count
    let own = try row(
      """
      SELECT count(*) AS waiting, coalesce(sum(length(base64)), 0) AS bytes FROM pending_receipt WHERE user_id = \(user)
      """)
    guard let own, try own.decode(Int.self, forColumn: "waiting") < Self.pendingPerUser,
      try own.decode(Int.self, forColumn: "bytes") + size <= Self.pendingBytesPerUser
    else { return .tooMany }
    let all = try row("SELECT bytes FROM pending_total WHERE id = 1")
    guard let all, try all.decode(Int.self, forColumn: "bytes") + size <= Self.pendingBytes else { return .full }
    let receivedAt = try StoredForm.milliseconds(receipt.receivedAt)
    let saved = try row(
      """
      INSERT INTO pending_receipt (user_id, sha256, base64, request_id, received_at, attempts, due_at)
      VALUES (\(user), \(sha256), \(receipt.base64), \(receipt.requestID), \(receivedAt), 0, \(receivedAt))
      RETURNING id
      """)
    guard let saved else { throw StoredForm.Unstorable() }
    return .row(try saved.decode(forColumn: "id"))
  }

  func pending(_ id: Int64) throws -> StoredPending? {
    try row("SELECT user_id, sha256, request_id FROM pending_receipt WHERE id = \(id)").map { row in
      let sha256: [UInt8] = try row.decode(forColumn: "sha256")
      return StoredPending(
        user: UserID(try row.decode(String.self, forColumn: "user_id")), digest: ReceiptDigest(bytes: sha256),
        requestID: try row.decode(forColumn: "request_id"))
    }
  }

  func pendingReceipts(dueAt now: Date, limit: Int) throws -> [PendingReceipt] {
    try rows(
      """
      SELECT id, user_id, base64, request_id, received_at, attempts FROM pending_receipt
      WHERE due_at <= \(try StoredForm.milliseconds(now))
      ORDER BY due_at, id LIMIT \(max(0, limit))
      """
    ).map { row in
      PendingReceipt(
        id: try row.decode(forColumn: "id"), user: UserID(try row.decode(String.self, forColumn: "user_id")),
        base64: try row.decode(forColumn: "base64"), requestID: try row.decode(forColumn: "request_id"),
        receivedAt: StoredForm.date(try row.decode(forColumn: "received_at")),
        attempts: try row.decode(forColumn: "attempts"))
    }
  }

  func retryPending(_ id: Int64, at due: Date) throws {
    try execute(
      """
      UPDATE pending_receipt SET attempts = attempts + 1, due_at = \(try StoredForm.milliseconds(due)) WHERE id = \(id)
      """)
  }

  func makePendingDue(at now: Int64) throws {
    try execute("UPDATE pending_receipt SET due_at = \(now) WHERE due_at > \(now)")
  }

  /// Deletes a queued receipt; its grants go with it.
  func removePending(_ id: Int64) throws { try execute("DELETE FROM pending_receipt WHERE id = \(id)") }

  // MARK: Provisional grants

  struct StoredGrant {
    var evidence: SubscriptionEvidence
    var owner: UserID
    var pending: Int64
    /// Does not count: the grant has expired, or is a reservation.
    var isOver = false

    /// Never counted: the purchase is reserved for its user, for a later grant.
    var isReservation: Bool { evidence.provisionalUntil.map { $0 <= evidence.evaluatedAt } ?? true }
  }

  /// Grants that count, in the order of `SubscriptionKey.precedes`.
  func provisionalEvidence(of user: UserID) throws -> [SubscriptionEvidence] {
    try user.spellings.flatMap { name in
      try rows("SELECT * FROM provisional_grant WHERE user_id = \(name) AND is_over = 0")
    }
    .map { try Self.grant($0).evidence }
    .sorted { $0.key.precedes($1.key) }
  }

  /// The grant, even an expired one.
  func grant(on key: SubscriptionKey) throws -> StoredGrant? {
    try row(
      """
      SELECT * FROM provisional_grant
      WHERE environment = \(key.environment.rawValue)
        AND original_transaction_id = \(key.originalTransactionID.rawValue)
      """
    ).map(Self.grant)
  }

  func grants(of pending: Int64) throws -> [StoredGrant] {
    try rows("SELECT * FROM provisional_grant WHERE pending_receipt_id = \(pending)").map(Self.grant)
  }

  func grants(endedAt now: Date) throws -> [StoredGrant] {
    try rows(
      """
      SELECT * FROM provisional_grant
      WHERE is_over = 0 AND until <= \(try StoredForm.milliseconds(now)) LIMIT 1000
      """
    ).map(Self.grant)
  }

  func save(_ grant: StoredGrant, until: Int64) throws {
    let evidence = grant.evidence
    let text = try StoredForm.text(StoredForm.Rows(evidence))
    try execute(
      """
      INSERT INTO provisional_grant
        (environment, original_transaction_id, user_id, pending_receipt_id, source, evidence_at, judged_at, until,
         is_over, evidence)
      VALUES
        (\(evidence.key.environment.rawValue), \(evidence.key.originalTransactionID.rawValue),
         \(grant.owner.rawValue), \(grant.pending), \(evidence.source.rawValue),
         \(try StoredForm.milliseconds(evidence.evidenceTime)), \(try StoredForm.milliseconds(evidence.evaluatedAt)),
         \(until), \(grant.isOver), \(text))
      """)
  }

  /// Marks a grant as expired. It stays, so that no further grant is made on the purchase.
  func endGrant(on key: SubscriptionKey) throws {
    try execute(
      """
      UPDATE provisional_grant SET is_over = 1
      WHERE environment = \(key.environment.rawValue)
        AND original_transaction_id = \(key.originalTransactionID.rawValue)
      """)
  }

  func removeGrant(on key: SubscriptionKey) throws {
    try execute(
      """
      DELETE FROM provisional_grant
      WHERE environment = \(key.environment.rawValue)
        AND original_transaction_id = \(key.originalTransactionID.rawValue)
      """)
  }

  private static func grant(_ row: StoredRow) throws -> StoredGrant {
    let environment: String = try row.decode(forColumn: "environment")
    let source: String = try row.decode(forColumn: "source")
    guard let environment = StoreEnvironment(rawValue: environment), let source = EvidenceSource(rawValue: source)
    else { throw StoredForm.Unstorable() }
    let rows = try StoredForm.value(StoredForm.Rows.self, try row.decode(forColumn: "evidence"))
    var evidence = rows.evidence(
      of: SubscriptionKey(
        environment: environment,
        originalTransactionID: OriginalTransactionID(try row.decode(String.self, forColumn: "original_transaction_id"))),
      source: source, evidenceAt: try row.decode(forColumn: "evidence_at"),
      evaluatedAt: try row.decode(forColumn: "judged_at"))
    evidence.provisionalUntil = StoredForm.date(try row.decode(forColumn: "until"))
    return StoredGrant(
      evidence: evidence, owner: UserID(try row.decode(String.self, forColumn: "user_id")),
      pending: try row.decode(forColumn: "pending_receipt_id"), isOver: try row.decode(forColumn: "is_over"))
  }
}
