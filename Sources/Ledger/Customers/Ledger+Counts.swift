package import struct FoundationEssentials.Date

extension Ledger {
  /// Counts the users. Each is counted by itself, a million in less than a second: not for every request.
  package func userCounts(at now: Date) async throws(LedgerError) -> UserCounts {
    try await read { tables in
      let users: Int? = try tables.first(
        "SELECT count(*) FROM (SELECT 1 FROM account LIMIT ?) AS accounts", UserCounts.limit + 1)
      return UserCounts(
        paying: try tables.accessGiven().reduce(0) { $0 + $1.users }, trials: try tables.countTrials(runningAt: now),
        users: users.flatMap { $0 > UserCounts.limit ? nil : $0 }, newestNotification: try tables.newestNotification(),
        newestRevenueCatReport: try tables.newestRevenueCatReport())
    }
  }
}
