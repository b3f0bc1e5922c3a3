package import Entitlements
package import struct FoundationEssentials.Date

/// The users to reevaluate.
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

  /// Recorded verdicts that give access, counted by tier and product.
  package func accessGiven() async throws(LedgerError) -> [AccessCount] {
    try await read { tables in try tables.accessGiven() }
  }
}
