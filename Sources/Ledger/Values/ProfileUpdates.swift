package import Entitlements
package import struct FoundationEssentials.Date

/// How far the app's own row of a user has got.
package enum ProfileWriteState: String, Hashable, Sendable {
  /// Recorded, not in the row yet.
  case waiting
  /// The row says what the verdict says, or is newer.
  case written
  /// There is no such row yet. It is tried again, ever more rarely.
  case missing
}

/// The verdict on a user, as the app's own row has to be told of it: always the newest.
package struct WaitingUpdate: Hashable, Sendable {
  package var user: UserID
  /// Grows with every verdict on the user and never runs behind Apple's clock: milliseconds since 1970 of the evidence, or
  /// one more than the version before. A ledger restored from a backup thereby catches up with what it once wrote.
  package var version: Int64
  /// Above this no update is raised, so that there is room for the versions of later ones.
  package static let highestFloor = Int64.max / 2
  package var entitlement: Entitlement
  /// Since when the row has not been what it should be: the oldest verdict that did not get through.
  package var waitingSince: Date
  /// How often it was tried in vain; of a row that is missing, how often it was.
  package var attempts: Int
  /// `written`: it is written once more, as an older write may have been carried out after it.
  package var state: ProfileWriteState

  package init(
    user: UserID, version: Int64, entitlement: Entitlement, waitingSince: Date, attempts: Int, state: ProfileWriteState
  ) {
    self.user = user
    self.version = version
    self.entitlement = entitlement
    self.waitingSince = waitingSince
    self.attempts = attempts
    self.state = state
  }
}

/// What waits, for operators.
package struct LedgerBacklog: Hashable, Sendable {
  /// Users whose row is not up to date.
  package var updates = 0
  /// Since when the longest waiting of them waits.
  package var oldestUpdate: Date?
  /// Why the update that was tried in vain last was: the store's code.
  package var lastProblem: String?
  /// Users without a row.
  package var missingProfiles = 0
  /// Receipts that were acknowledged and on which there is no verdict yet.
  package var pendingReceipts = 0
  package var oldestPendingReceipt: Date?
  /// Subscriptions that are to be asked about now.
  package var rechecksDue = 0
  /// When the one that is overdue longest was due.
  package var oldestRecheck: Date?

  package init() {}
}
