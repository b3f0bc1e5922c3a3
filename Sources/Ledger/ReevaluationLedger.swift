package import Entitlements
package import struct FoundationEssentials.Date

/// What a service asks that judges users anew without an answer of Apple's: as its rules have changed, or as time has passed
/// in which Apple could not be asked.
package protocol ReevaluationLedger: Sendable {
  /// Users with everything known of them, in the order of their IDs.
  /// - Parameter user: the last one of the page before; `nil` begins with the first.
  func profiles(after user: UserID?, limit: Int) async throws(LedgerError) -> [UserProfile]

  /// Users whose recorded access ended before a moment and who have a purchase that is due to be asked about since then: the
  /// longest overdue first.
  func usersOverdue(since moment: Date, limit: Int) async throws(LedgerError) -> [UserID]

  /// Judges a user anew over everything known of them, and writes the verdict down where there is one.
  func reevaluate(
    _ user: UserID, requestID: String, _ reevaluation: Reevaluation
  ) async throws(LedgerError) -> ReevaluationOutcome

  /// Recorded verdicts that give access, counted by what gives it.
  /// - Parameter moment: access that ended before it is left out.
  func accessGiven(endingAfter moment: Date) async throws(LedgerError) -> [AccessCount]
}

package struct UserProfile: Sendable {
  package var user: UserID
  package var profile: LedgerProfile
}

/// How a user is judged anew. Pure; it runs inside the ledger's transaction.
package struct Reevaluation: Sendable {
  /// The verdict that takes the place of the recorded one; `nil` where that stands.
  package typealias Successor =
    @Sendable (
      _ evidence: [SubscriptionEvidence], _ recorded: Entitlement, _ now: Date
    ) -> Entitlement?

  /// The moment to judge at.
  package var judgedAt: Date
  /// Our own clock, for the record only.
  package var recordedAt: Date
  package var successor: Successor
  package var admits: Admission

  package init(
    judgedAt: Date, recordedAt: Date, successor: @escaping Successor, admits: @escaping Admission = { _, _ in true }
  ) {
    self.judgedAt = judgedAt
    self.recordedAt = recordedAt
    self.successor = successor
    self.admits = admits
  }
}

package enum ReevaluationOutcome: Hashable, Sendable {
  case recorded
  /// The recorded verdict stands.
  case unchanged
  /// The new verdict was not admitted.
  case heldBack
}

/// How many users have a tier by a product.
package struct AccessCount: Hashable, Sendable {
  package var tier: Tier
  package var product: ProductID
  package var isForLife: Bool
  package var users: Int

  package init(tier: Tier, product: ProductID, isForLife: Bool = false, users: Int) {
    self.tier = tier
    self.product = product
    self.isForLife = isForLife
    self.users = users
  }
}

extension SQLiteLedger {
  package func profiles(after user: UserID?, limit: Int) async throws(LedgerError) -> [UserProfile] {
    try await read { tables in try tables.profiles(after: user, limit: limit) }
  }

  package func usersOverdue(since moment: Date, limit: Int) async throws(LedgerError) -> [UserID] {
    try await read { tables in try tables.usersOverdue(since: moment, limit: limit) }
  }

  package func reevaluate(
    _ user: UserID, requestID: String, _ reevaluation: Reevaluation
  ) async throws(LedgerError) -> ReevaluationOutcome {
    let admits = AdmissionMemory.remembering(reevaluation.admits)
    return try await queue.submit { tables in
      guard let digest = try tables.newestDigest(of: user) else { return .unchanged }
      return try VerdictWriter(
        tables: tables, recordedAt: try StoredForm.milliseconds(reevaluation.recordedAt), requestID: requestID,
        digest: digest, evidenceAt: nil
      ).reevaluate(user, by: reevaluation.successor, at: reevaluation.judgedAt, admits: admits)
    }
  }

  package func accessGiven(endingAfter moment: Date) async throws(LedgerError) -> [AccessCount] {
    try await read { tables in try tables.accessGiven(endingAfter: moment) }
  }
}

extension LedgerTables {
  func profiles(after user: UserID?, limit: Int) throws -> [UserProfile] {
    try rows(
      "SELECT user_id FROM profile WHERE user_id > \(user?.rawValue ?? "") ORDER BY user_id LIMIT \(max(0, limit))"
    ).compactMap { row in
      let user = UserID(try row.decode(String.self, forColumn: "user_id"))
      return try ledgerProfile(of: user).map { UserProfile(user: user, profile: $0) }
    }
  }

  func ledgerProfile(of user: UserID) throws -> LedgerProfile? {
    guard let (profile, write) = try standing(of: user) else { return nil }
    return LedgerProfile(
      evidence: try evidence(of: user), entitlement: profile.entitlement, version: profile.version, write: write)
  }

  func usersOverdue(since moment: Date, limit: Int) throws -> [UserID] {
    let moment = try StoredForm.milliseconds(moment)
    return try rows(
      """
      SELECT profile.user_id
      FROM recheck JOIN subscription USING (environment, original_transaction_id) JOIN profile USING (user_id)
      WHERE recheck.scheduled_at <= \(moment) AND profile.status <> 'expired' AND profile.access_until <= \(moment)
      ORDER BY recheck.scheduled_at LIMIT \(max(0, limit))
      """
    ).map { UserID(try $0.decode(String.self, forColumn: "user_id")) }
  }

  /// The receipt that the verdict on a user came of.
  func newestDigest(of user: UserID) throws -> ReceiptDigest? {
    try row(
      "SELECT receipt_sha256 FROM history WHERE user_id = \(user.rawValue) ORDER BY version DESC LIMIT 1"
    ).map { ReceiptDigest(bytes: try $0.decode(forColumn: "receipt_sha256")) }
  }

  /// Reads every verdict.
  func accessGiven(endingAfter moment: Date) throws -> [AccessCount] {
    let moment = try StoredForm.milliseconds(moment)
    return try rows(
      """
      SELECT tier, json_extract(entitlement, '$.productID') AS product,
        json_extract(entitlement, '$.reason') = 'lifetime' AS is_for_life, count(*) AS users
      FROM profile
      WHERE status <> 'expired' AND (access_until IS NULL OR access_until > \(moment)) AND product IS NOT NULL
      GROUP BY tier, product, is_for_life ORDER BY tier, product, is_for_life
      """
    ).map { row in
      AccessCount(
        tier: Tier(try row.decode(String.self, forColumn: "tier")),
        product: ProductID(try row.decode(String.self, forColumn: "product")),
        isForLife: try row.decode(forColumn: "is_for_life"), users: try row.decode(forColumn: "users"))
    }
  }
}

extension VerdictWriter {
  func reevaluate(
    _ user: UserID, by successor: Reevaluation.Successor, at moment: Date, admits: Admission
  ) throws -> ReevaluationOutcome {
    guard let before = try tables.profile(of: user) else { return .unchanged }
    let evidence = try tables.evidence(of: user)
    guard
      let verdict = successor(evidence, before.entitlement, Self.moment(of: evidence, notBefore: moment)),
      try !Self.isSame(verdict, before.entitlement, by: \.apartFromMoment)
    else { return .unchanged }
    guard admits(before.entitlement, verdict) else { return .heldBack }
    _ = try save(verdict, of: user, after: before)
    return .recorded
  }
}
