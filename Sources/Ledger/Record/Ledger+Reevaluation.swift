package import Entitlements
package import struct FoundationEssentials.Date

/// Reevaluation of users without an answer from Apple: after a change of the rules, or after an outage in which Apple
/// could not be asked.
extension Ledger {
  /// Users with all their evidence, in the order of their IDs.
  /// - Parameter user: the last one of the previous page; `nil` begins with the first.
  package func profiles(after user: UserID?, limit: Int) async throws(LedgerError) -> [UserProfile] {
    try await read { tables in try tables.profiles(after: user, limit: limit) }
  }

  /// Users whose recorded access ended before a moment, with a purchase due for a check since then: the longest overdue
  /// first.
  package func usersOverdue(since moment: Date, limit: Int) async throws(LedgerError) -> [UserID] {
    try await read { tables in try tables.usersOverdue(since: moment, limit: limit) }
  }

  /// Reevaluates a user over all evidence, and stores the verdict if there is one.
  package func reevaluate(
    _ user: UserID, requestID: String, _ reevaluation: Reevaluation
  ) async throws(LedgerError) -> ReevaluationOutcome {
    let approves = ApprovalCache.remembering(reevaluation.approves)
    return try await engine.submit { tables in
      guard let account = try tables.account(of: user) else { return .unchanged }
      return try VerdictWriter(
        tables: tables,
        head: .init(recordedAt: try StoredForm.milliseconds(reevaluation.recordedAt), requestID: requestID),
        digest: try tables.newestDigest(of: account), evidenceAt: nil
      ).reevaluate(user, by: reevaluation.successor, at: reevaluation.evaluatedAt, approves: approves)
    }
  }

  /// Recorded verdicts that give access, counted by tier and product.
  package func accessGiven() async throws(LedgerError) -> [AccessCount] {
    try await read { tables in try tables.accessGiven() }
  }
}
