internal import Entitlements
internal import struct FoundationEssentials.Date

/// Grants that hold while Apple cannot be asked.
struct ProvisionalGrantTable: LedgerTable {
  let tables: LedgerTables

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
  func evidence(of user: UserID) throws -> [SubscriptionEvidence] {
    try user.spellings.flatMap { try all(Self.grantsOfUser, $0, read: Self.grant) }
      .map(\.evidence)
      .sorted { $0.key.precedes($1.key) } + tables.otherStores.reportedEvidence(of: user)
  }

  /// The grant, even an expired one.
  func grant(on key: SubscriptionKey) throws -> StoredGrant? { try first(Self.grantByKey, key, read: Self.grant) }

  func grants(of pending: Int64) throws -> [StoredGrant] {
    try all(Self.grantsOfReceipt, pending, read: Self.grant)
  }

  func hasAny(endedAt now: Date) throws -> Bool {
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
  func end(on key: SubscriptionKey) throws {
    changes.invalidateAll()
    try execute("UPDATE provisional_grant SET is_over = 1 WHERE environment = ? AND original_transaction_id = ?", key)
  }

  func remove(on key: SubscriptionKey) throws {
    changes.invalidateAll()
    try execute("DELETE FROM provisional_grant WHERE environment = ? AND original_transaction_id = ?", key)
  }
}
