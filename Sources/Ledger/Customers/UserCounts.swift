package import struct FoundationEssentials.Date

/// Counts of the ledger's users, and the times of the newest reports about them.
package struct UserCounts: Hashable, Sendable {
  /// The most users that are counted.
  package static let limit = 1_000_000

  /// Users whom a purchase gives access, by the last recorded verdicts.
  package var paying: Int
  /// Trials of the app's own that are running.
  package var trials: Int
  /// Users with any record; `nil` above `limit`.
  package var users: Int?
  /// When the newest notification of Apple's was recorded; `nil` for never, or for longer ago than they are kept.
  package var newestNotification: Date?
  /// When the newest of RevenueCat's events was recorded; `nil` as above.
  package var newestRevenueCatReport: Date?
}

extension Ledger {
  /// Counts the users. Each is counted by itself, a million in less than a second: not for every request.
  package func userCounts(at now: Date) async throws(LedgerError) -> UserCounts {
    try await read { tables in
      let users: Int? = try tables.first(
        "SELECT count(*) FROM (SELECT 1 FROM account LIMIT ?) AS accounts", UserCounts.limit + 1)
      return UserCounts(
        paying: try tables.accounts.accessGiven().reduce(0) { $0 + $1.users },
        trials: try tables.trials.count(runningAt: now),
        users: users.flatMap { $0 > UserCounts.limit ? nil : $0 },
        newestNotification: try tables.notifications.newest(),
        newestRevenueCatReport: try tables.notifications.newestRevenueCatReport())
    }
  }
}
