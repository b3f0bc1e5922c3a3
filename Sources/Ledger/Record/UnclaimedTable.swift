internal import Entitlements
internal import struct FoundationEssentials.Date

/// Evidence whose owner is not known yet.
struct UnclaimedTable: LedgerTable {
  let tables: LedgerTables

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

  private static let unclaimedColumns = "source, evidence_at, judged_at, evidence, bundle_id, proof, proof_at"
  private static let unclaimedRow =
    "SELECT environment, original_transaction_id, \(unclaimedColumns) FROM unclaimed_evidence"
  private static let unclaimedByKey = SQL("\(unclaimedRow) WHERE environment = ? AND original_transaction_id = ?")
  private static let unclaimedByToken = SQL("\(unclaimedRow) WHERE account_token = ? LIMIT ?")
  private static let upsertUnclaimed = SQL.upsert(
    "unclaimed_evidence", key: "environment, original_transaction_id", first: "first_seen_at",
    "\(unclaimedColumns), account_token, last_seen_at", to: SQL.orLater("unclaimed_evidence"))

  func purchase(_ key: SubscriptionKey) throws -> StoredUnclaimed? {
    try first(Self.unclaimedByKey, key, read: Self.unclaimed)
  }

  /// Whether a purchase names another user than this one. A user ID that is no UUID is another one where the account token is
  /// the ID of a user: one who is known, if not by the configuration.
  func names(
    _ evidence: SubscriptionEvidence, anotherThan user: UserID, tokensAreUserIDs: Bool = false
  ) throws -> Bool {
    if evidence.namesAnother(than: user, tokensAreUserIDs: tokensAreUserIDs) { return true }
    guard user.accountToken == nil, let token = evidence.accountToken else { return false }
    return try tables.accounts.isKnown(UserID(token))
  }

  /// Purchases that name a user, in the order of `SubscriptionKey.precedes`.
  func purchases(naming user: UserID) throws -> [StoredUnclaimed] {
    guard let token = user.accountToken else { return [] }
    return try all(Self.unclaimedByToken, token, Self.claimsAtOnce, read: Self.unclaimed)
      .sorted { $0.evidence.key.precedes($1.evidence.key) }
  }

  /// The most purchases that one record claims by name; the next record claims the rest.
  static let claimsAtOnce = 50

  private static func unclaimed(_ row: SQLRow) throws -> StoredUnclaimed {
    let text: String = try row.get(5)
    return StoredUnclaimed(
      evidence: try StoredForm.evidence(
        text, of: row.get(0), source: row.get(2), evidenceAt: row.get(3), evaluatedAt: row.get(4)),
      rows: text, bundleID: try row.get(6), proof: try row.get(7), proofAt: try row.get(8))
  }

  func save(_ unclaimed: StoredUnclaimed, seenAt: Int64) throws {
    let evidence = unclaimed.evidence
    try execute(
      Self.upsertUnclaimed, evidence.key, seenAt, evidence.source, evidence.evidenceTime, evidence.evaluatedAt,
      unclaimed.rows, unclaimed.bundleID, unclaimed.proof, unclaimed.proofAt, evidence.accountToken, seenAt)
  }

  func remove(_ key: SubscriptionKey) throws {
    try execute("DELETE FROM unclaimed_evidence WHERE environment = ? AND original_transaction_id = ?", key)
  }
}

extension LedgerTables { var unclaimed: UnclaimedTable { UnclaimedTable(tables: self) } }
