internal import Entitlements
internal import struct FoundationEssentials.Date

extension LedgerTables {
  // MARK: Unclaimed purchases

  struct StoredUnclaimed {
    var evidence: SubscriptionEvidence
    /// The text of the `evidence` column.
    var rows: String
    var bundleID: BundleID?
    var proof: String?
    var proofAt: Int64?

    /// The proof in the form stored with a purchase.
    var receipt: KeptReceipt? {
      guard let proof, let bundleID else { return nil }
      return KeptReceipt(base64: proof, environment: evidence.key.environment, bundleID: bundleID)
    }
  }

  func unclaimed(_ key: SubscriptionKey) throws -> StoredUnclaimed? {
    try first(
      """
      SELECT environment, original_transaction_id, source, evidence_at, judged_at, evidence, bundle_id, proof, proof_at
      FROM unclaimed_evidence WHERE environment = ? AND original_transaction_id = ?
      """, key.environment, key.originalTransactionID, read: Self.unclaimed)
  }

  /// Whether a purchase names another user than this one. A user ID that is no UUID is another one where the account token is
  /// the ID of a user: one who is known, if not by the configuration.
  func names(
    _ evidence: SubscriptionEvidence, anotherThan user: UserID, tokensAreUserIDs: Bool = false
  ) throws -> Bool {
    if evidence.namesAnother(than: user, tokensAreUserIDs: tokensAreUserIDs) { return true }
    guard user.accountToken == nil, let token = evidence.accountToken else { return false }
    return try isKnown(UserID(token))
  }

  /// Purchases that name a user, in the order of `SubscriptionKey.precedes`.
  func unclaimed(naming user: UserID) throws -> [StoredUnclaimed] {
    guard let token = user.accountToken else { return [] }
    return try all(
      """
      SELECT environment, original_transaction_id, source, evidence_at, judged_at, evidence, bundle_id, proof, proof_at
      FROM unclaimed_evidence WHERE account_token = ? LIMIT ?
      """, token, Self.claimsAtOnce, read: Self.unclaimed
    ).sorted { $0.evidence.key.precedes($1.evidence.key) }
  }

  /// The most purchases that one record claims by name; the next record claims the rest.
  static let claimsAtOnce = 50

  private static func unclaimed(_ row: SQLRow) throws -> StoredUnclaimed {
    let text: String = try row.get(5)
    return StoredUnclaimed(
      evidence: try StoredForm.evidence(
        text, of: row.key(0), source: row.get(2), evidenceAt: row.get(3), evaluatedAt: row.get(4)),
      rows: text, bundleID: try row.get(6), proof: try row.get(7), proofAt: try row.get(8))
  }

  func save(_ unclaimed: StoredUnclaimed, seenAt: Int64) throws {
    let evidence = unclaimed.evidence
    try execute(
      """
      INSERT INTO unclaimed_evidence
        (environment, original_transaction_id, source, evidence_at, judged_at, evidence, account_token, bundle_id, proof,
         proof_at, first_seen_at, last_seen_at)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (environment, original_transaction_id) DO UPDATE SET
        source = excluded.source, evidence_at = excluded.evidence_at, judged_at = excluded.judged_at,
        evidence = excluded.evidence, account_token = excluded.account_token, bundle_id = excluded.bundle_id,
        proof = excluded.proof, proof_at = excluded.proof_at,
        last_seen_at = CASE WHEN unclaimed_evidence.last_seen_at > excluded.last_seen_at THEN unclaimed_evidence.last_seen_at ELSE excluded.last_seen_at END
      """, evidence.key.environment, evidence.key.originalTransactionID, evidence.source, evidence.evidenceTime,
      evidence.evaluatedAt, unclaimed.rows, evidence.accountToken, unclaimed.bundleID, unclaimed.proof,
      unclaimed.proofAt, seenAt, seenAt)
  }

  func removeUnclaimed(_ key: SubscriptionKey) throws {
    try execute(
      "DELETE FROM unclaimed_evidence WHERE environment = ? AND original_transaction_id = ?", key.environment,
      key.originalTransactionID)
  }
}
