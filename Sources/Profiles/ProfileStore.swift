package import Entitlements
package import struct FoundationEssentials.Date

/// The subscription columns of a user's profile row, as one update.
package struct ProfileUpdate: Hashable, Sendable {
  package var user: UserID
  /// Grows with every update of this user, and never falls behind Apple's clock: milliseconds since 1970 of the
  /// evidence, or one more than the previous version; without purchases, a count from 1.
  package var version: Int64
  package var tier: Tier
  package var status: SubscriptionStatus
  /// The end of access, past or future, as far as known; `nil` for lifetime and for a user without purchases.
  package var expiresAt: Date?
  package var originalTransactionID: OriginalTransactionID?

  package init(
    user: UserID, version: Int64, tier: Tier, status: SubscriptionStatus, expiresAt: Date?,
    originalTransactionID: OriginalTransactionID?
  ) {
    self.user = user
    self.version = version
    self.tier = tier
    self.status = status
    self.expiresAt = expiresAt
    self.originalTransactionID = originalTransactionID
  }
}

/// The app's profile rows, in any kind of store.
///
/// Updates are idempotent: an applied update may be sent again.
package protocol ProfileStore: Sendable {
  /// Whether the store itself refuses a version older than the row's. Otherwise a write without a response may be
  /// executed after a newer one.
  var refusesOlder: Bool { get }

  /// Writes an update to a user's row, unless the row is newer.
  func apply(_ update: ProfileUpdate, deadline: ContinuousClock.Instant) async -> ProfileWriteOutcome

  /// Whether updates could be applied now. Changes nothing.
  func check(deadline: ContinuousClock.Instant) async -> ProfileStoreCheck
}

package enum ProfileWriteOutcome: Hashable, Sendable {
  case applied
  /// The row has a newer version than the update, or the same with other values, and keeps it.
  case superseded(by: Int64)
  case noSuchProfile
  /// The user cannot have a row: the store's column cannot hold the ID.
  case impossibleUserID(ProfileStoreTrouble)
  /// The store refuses this update: a check or unique constraint, or a bug of ours. Others may pass.
  case refused(ProfileStoreTrouble)
  /// The store refuses every update until the configuration is corrected: key, grant, table, column.
  case misconfigured(ProfileStoreTrouble)
  /// The store is unreachable or slow, or the connection broke: the update may have been applied. Retry it.
  case unavailable(ProfileStoreTrouble, retryAfter: Duration?)
}

package enum ProfileStoreCheck: Hashable, Sendable {
  case ok
  case misconfigured(ProfileStoreTrouble)
  case unavailable(ProfileStoreTrouble)
}

/// A problem with the store, for operators.
package struct ProfileStoreTrouble: Error, Hashable, Sendable, CustomStringConvertible {
  /// A short constant code: an SQLSTATE, a PostgREST code, `http_503`, `timed_out`.
  package var code: String
  /// The meaning and the remedy. Composed here, without text from the store, which may contain a user's row.
  package var sentence: String
  /// The store itself did not respond to the update, so it may still be in progress.
  package var mayStillBeApplied: Bool

  package init(code: String, sentence: String, mayStillBeApplied: Bool = false) {
    self.code = code
    self.sentence = sentence
    self.mayStillBeApplied = mayStillBeApplied
  }

  /// Whether the store may hide every row from our key. It then treats each write as one to a user without a row.
  package var isAboutHiddenRows: Bool { code == Self.noRowsVisible }
  package static let noRowsVisible = "no_rows_visible"

  /// Whether the problem may be this one row, locked by another client, changed by a trigger or forbidden by a policy, and
  /// not the store: no response in time, `query_canceled` for the statement's own time limit, `lock_not_available`.
  package var mayBeOneRows: Bool {
    [Self.changedByStore, Self.forbiddenByStore, "timed_out", "57014", "55P03"].contains(code)
  }
  package static let changedByStore = "changed_by_store"
  package static let forbiddenByStore = "forbidden_by_store"

  package var description: String { "\(sentence) (\(code))" }
}
