package import Entitlements
package import struct FoundationEssentials.Date

/// Queries and writes for reevaluating users without an answer from Apple: after a change of the rules, or after an
/// outage in which Apple could not be asked.
package protocol ReevaluationLedger: Sendable {
  /// Users with all their evidence, in the order of their IDs.
  /// - Parameter user: the last one of the previous page; `nil` begins with the first.
  func profiles(after user: UserID?, limit: Int) async throws(LedgerError) -> [UserProfile]

  /// Users whose recorded access ended before a moment, with a purchase due for a check since then: the longest overdue
  /// first.
  func usersOverdue(since moment: Date, limit: Int) async throws(LedgerError) -> [UserID]

  /// Reevaluates a user over all evidence, and stores the verdict if there is one.
  func reevaluate(
    _ user: UserID, requestID: String, _ reevaluation: Reevaluation
  ) async throws(LedgerError) -> ReevaluationOutcome

  /// Recorded verdicts that give access, counted by tier and product.
  func accessGiven() async throws(LedgerError) -> [AccessCount]
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
    let approves = ApprovalCache.remembering(reevaluation.approves)
    return try await queue.submit { tables in
      guard let account = try tables.account(of: user), let digest = try tables.newestDigest(of: account)
      else { return .unchanged }
      return try VerdictWriter(
        tables: tables,
        head: .init(recordedAt: try StoredForm.milliseconds(reevaluation.recordedAt), requestID: requestID),
        digest: digest, evidenceAt: nil
      ).reevaluate(user, by: reevaluation.successor, at: reevaluation.evaluatedAt, approves: approves)
    }
  }

  package func accessGiven() async throws(LedgerError) -> [AccessCount] {
    try await read { tables in try tables.accessGiven() }
  }
}
