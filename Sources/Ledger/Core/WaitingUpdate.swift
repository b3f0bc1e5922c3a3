package import Entitlements
package import struct FoundationEssentials.Date

/// The write state of a user's row in the app's table.
package enum ProfileWriteState: String, Hashable, Sendable {
  /// Recorded, but not yet in the row.
  case waiting
  /// The row has the verdict, or a newer one.
  case written
  /// The row does not exist yet. Retries become ever rarer.
  case missing
}

/// The update of the app's row for a user: always the newest verdict.
package struct WaitingUpdate: Hashable, Sendable {
  package var user: UserID
  /// Grows with every verdict on the user and never falls behind Apple's clock: milliseconds since 1970 of the
  /// evidence, or one more than the previous version. A ledger restored from a backup thereby passes the versions it
  /// wrote before.
  package var version: Int64
  /// The highest version that `raiseUpdate` continues from, so that later versions have room.
  package static let highestFloor = Int64.max / 2
  package var entitlement: Entitlement
  /// When the row became outdated: the time of the oldest undelivered verdict.
  package var waitingSince: Date
  /// Failed attempts; for a missing row, how often it was missing.
  package var attempts: Int
  /// `written`: a confirming write is due, as an older write may have been executed after it.
  package var state: ProfileWriteState
  /// The user was erased, and the row is to be as if there had never been one. Then nothing names the user any more.
  package var isReset = false
}
