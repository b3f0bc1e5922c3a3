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

  /// - Parameter waiting: the queued bytes of all users; `nil`: as `pending_total` has them.
  func postpone(_ receipt: PendingReceipt, digest: ReceiptDigest, waiting total: Int?) throws -> Place {
    let user = receipt.user
    let known = try first(
      "SELECT id FROM pending_receipt WHERE user_id = ? AND sha256 = ?", user, digest, as: Int64.self)
    if let known { return .row(known) }
    // Base64 has as many bytes as characters.
    let size = receipt.base64.utf8.count
    let own = try first(
      "SELECT count(*), coalesce(sum(length(base64)), 0) FROM pending_receipt WHERE user_id = ?", user,
      as: (Int, Int).self)
    guard let (waiting, bytes) = own, waiting < Self.pendingPerUser, bytes + size <= Self.pendingBytesPerUser else {
      return .tooMany
    }
    let all = try total ?? first("SELECT bytes FROM pending_total WHERE id = 1", as: Int.self)
    guard let all, all + size <= Self.pendingBytes else { return .full }
    let saved = try first(
      """
      INSERT INTO pending_receipt (user_id, sha256, base64, request_id, received_at, attempts, due_at)
      VALUES (?, ?, ?, ?, ?, 0, ?) RETURNING id
      """, user, digest, receipt.base64, receipt.requestID, receipt.receivedAt, receipt.receivedAt, as: Int64.self)
    guard let saved else { throw StoredForm.Unstorable() }
    return .row(saved)
  }

  /// The queued bytes of all users in PostgreSQL, by their rows.
  func pendingSize() throws -> Int {
    try first("SELECT coalesce(sum(octet_length(base64)), 0) FROM pending_receipt") ?? 0
  }

  func pending(_ id: Int64) throws -> StoredPending? {
    try first(
      "SELECT user_id, sha256, request_id FROM pending_receipt WHERE id = ?", id,
      into: StoredPending.init(user:digest:requestID:))
  }

  private static let pendingRow = "SELECT id, user_id, base64, request_id, received_at, attempts FROM pending_receipt"
  private static let pendingDue = SQL("\(pendingRow) WHERE due_at <= ? ORDER BY due_at, id LIMIT ?")
  private static let pendingToClaim = SQL(
    "\(pendingRow) WHERE due_at <= ? ORDER BY due_at, id LIMIT ? /*pg: FOR UPDATE SKIP LOCKED */")
  private static let pendingOfUser = SQL("\(pendingRow) WHERE user_id = ? ORDER BY id")

  func pendingReceipts(dueAt now: Date, limit: Int) throws -> [PendingReceipt] {
    try all(Self.pendingDue, now, max(0, limit), into: PendingReceipt.init)
  }

  func pendingReceipts(of spelling: String) throws -> [PendingReceipt] {
    try all(Self.pendingOfUser, spelling, into: PendingReceipt.init)
  }

  /// As `pendingReceipts`, each for the caller alone.
  func claimPending(dueAt now: Date, until lease: Date, limit: Int) throws -> [PendingReceipt] {
    let due = try all(Self.pendingToClaim, now, max(0, limit), into: PendingReceipt.init)
    for receipt in due { try execute("UPDATE pending_receipt SET due_at = ? WHERE id = ?", lease, receipt.id) }
    return due
  }

  func retryPending(_ id: Int64, at due: Date, isCounted: Bool = true) throws {
    try execute(
      "UPDATE pending_receipt SET attempts = attempts + ?, due_at = ? WHERE id = ?", isCounted ? 1 : 0, due, id)
  }

  /// Deletes a queued receipt; its grants go with it.
  func removePending(_ id: Int64) throws {
    changes.invalidateAll()
    try execute("DELETE FROM pending_receipt WHERE id = ?", id)
  }

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

  private static func grants(where condition: String) -> SQL {
    SQL(
      """
      SELECT environment, original_transaction_id, source, evidence_at, judged_at, evidence, until, user_id,
        pending_receipt_id, is_over
      FROM provisional_grant WHERE \(condition)
      """)
  }

  private static let grantsOfUser = grants(where: "user_id = ? AND is_over = 0")
  private static let grantByKey = grants(where: "environment = ? AND original_transaction_id = ?")
  private static let grantsOfReceipt = grants(where: "pending_receipt_id = ?")

  /// Grants that count, in the order of `SubscriptionKey.precedes`; then what RevenueCat reported and nobody confirmed.
  func provisionalEvidence(of user: UserID) throws -> [SubscriptionEvidence] {
    try user.spellings.flatMap { try all(Self.grantsOfUser, $0, read: Self.grant) }
      .map(\.evidence)
      .sorted { $0.key.precedes($1.key) } + reportedEvidence(of: user)
  }

  /// The grant, even an expired one.
  func grant(on key: SubscriptionKey) throws -> StoredGrant? { try first(Self.grantByKey, key, read: Self.grant) }

  func grants(of pending: Int64) throws -> [StoredGrant] {
    try all(Self.grantsOfReceipt, pending, read: Self.grant)
  }

  func hasGrants(endedAt now: Date) throws -> Bool {
    try exists("SELECT 1 FROM provisional_grant WHERE is_over = 0 AND until <= ? LIMIT 1", now)
  }

  /// Grants that are over, without their evidence: one that cannot be read ends like the others.
  func grants(endedAt now: Date) throws -> [(key: SubscriptionKey, owner: UserID, pending: Int64)] {
    try all(
      """
      SELECT environment, original_transaction_id, user_id, pending_receipt_id FROM provisional_grant
      WHERE is_over = 0 AND until <= ? LIMIT 1000
      """, now, as: (SubscriptionKey, UserID, Int64).self
    )
    .map { (key: $0, owner: $1, pending: $2) }
  }

  private static func grant(_ row: SQLRow) throws -> StoredGrant {
    var evidence = try StoredForm.evidence(
      row.get(5), of: row.get(0), source: row.get(2), evidenceAt: row.get(3), evaluatedAt: row.get(4))
    evidence.provisionalUntil = try row.get(6)
    return StoredGrant(
      evidence: evidence, owner: try row.get(7), pending: try row.get(8), isOver: try row.get(9))
  }

  func save(_ grant: StoredGrant, until: Int64) throws {
    changes.invalidate(grant.owner)
    let evidence = grant.evidence
    try execute(
      """
      INSERT INTO provisional_grant
        (environment, original_transaction_id, user_id, pending_receipt_id, source, evidence_at, judged_at, until,
         is_over, evidence)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      """, evidence.key, grant.owner, grant.pending, evidence.source, evidence.evidenceTime, evidence.evaluatedAt,
      until, grant.isOver, StoredForm.text(evidence))
  }

  /// Marks a grant as expired. It stays, so that no further grant is made on the purchase.
  func endGrant(on key: SubscriptionKey) throws {
    changes.invalidateAll()
    try execute("UPDATE provisional_grant SET is_over = 1 WHERE environment = ? AND original_transaction_id = ?", key)
  }

  func removeGrant(on key: SubscriptionKey) throws {
    changes.invalidateAll()
    try execute("DELETE FROM provisional_grant WHERE environment = ? AND original_transaction_id = ?", key)
  }
}
