package import struct FoundationEssentials.Date

extension Ledger {
  /// Counts the users. Each is counted by itself, a million in less than a second: not for every request.
  package func userCounts(at now: Date) async throws(LedgerError) -> UserCounts {
    try await read { tables in
      let users = try tables.countAccounts(upTo: UserCounts.limit + 1)
      return UserCounts(
        paying: try tables.accessGiven().reduce(0) { $0 + $1.users }, trials: try tables.countTrials(runningAt: now),
        users: users > UserCounts.limit ? nil : users, newestNotification: try tables.newestNotification(),
        newestRevenueCatReport: try tables.newestRevenueCatReport())
    }
  }
}
