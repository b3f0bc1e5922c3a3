package import struct FoundationEssentials.Date

/// Counts of the ledger's users, and the times of the newest reports about them.
package struct UserCounts: Hashable, Sendable {
  /// The most users that are counted.
  package static let limit = 1_000_000

  /// Users whom a purchase gives access, by the last recorded verdicts.
  package var paying: Int
  /// Trials of the app's own that are running.
  package var trials: Int
  /// Everybody of whom there is a record; `nil` above `limit`.
  package var users: Int?
  /// When the newest notification of Apple's was recorded; `nil` for never, or for longer ago than they are kept.
  package var newestNotification: Date?
  /// When the newest of RevenueCat's events was recorded; `nil` as above.
  package var newestRevenueCatReport: Date?
}
