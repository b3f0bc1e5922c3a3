package import Entitlements
package import struct FoundationEssentials.Date

/// What the app's own profile row is to say about a user.
package struct ProfileUpdate: Hashable, Sendable {
  package var user: UserID
  /// Grows with every update of this user, and never runs behind Apple's clock: milliseconds since 1970 of the evidence,
  /// or one more than the version before.
  package var version: Int64
  package var tier: Tier
  package var status: SubscriptionStatus
  /// When access ends as far as is known, or when it ended; `nil` for lifetime and for a user without purchases.
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

/// The app's profile rows, wherever they are kept.
///
/// Updates are idempotent: one that was applied may be sent again.
package protocol ProfileStore: Sendable {
  /// Whether the store itself refuses what is older than the row. Where it does not, a write of which no answer came may
  /// be carried out after a newer one.
  var refusesOlder: Bool { get }

  /// Brings a user's row to this update, unless the row is newer.
  func apply(_ update: ProfileUpdate, deadline: ContinuousClock.Instant) async -> ProfileWriteOutcome

  /// Whether updates could be applied now. It changes nothing.
  func check(deadline: ContinuousClock.Instant) async -> ProfileStoreCheck
}

/// What became of an update.
package enum ProfileWriteOutcome: Hashable, Sendable {
  /// The row says what the update says.
  case applied
  /// The row has a newer version than the update, and keeps it.
  case superseded(by: Int64)
  /// There is no row of this user.
  case noSuchProfile
  /// There can be no row of this user: the store's column cannot hold the ID.
  case impossibleUserID(ProfileStoreTrouble)
  /// The store will not take this update: a check or unique constraint, a bug of ours. Others may pass.
  case refused(ProfileStoreTrouble)
  /// The store takes no update from us until somebody mends the configuration: key, grant, table, column.
  case misconfigured(ProfileStoreTrouble)
  /// The store is away or slow, or broke off: the update may have been applied or not. Try it again.
  case unavailable(ProfileStoreTrouble, retryAfter: Duration?)
}

/// How the store is.
package enum ProfileStoreCheck: Hashable, Sendable {
  case ok
  case misconfigured(ProfileStoreTrouble)
  case unavailable(ProfileStoreTrouble)
}

/// What is wrong with the store, for operators.
package struct ProfileStoreTrouble: Error, Hashable, Sendable, CustomStringConvertible {
  /// A short word that is the same every time: an SQLSTATE, a PostgREST code, `http_503`, `timed_out`.
  package var code: String
  /// What it means and what to do. Made here: it has nothing in it that the store sent, as that may be a user's row.
  package var sentence: String
  /// Of an update that got no answer from the store itself: it may be under way still.
  package var mayStillBeApplied: Bool

  package init(code: String, sentence: String, mayStillBeApplied: Bool = false) {
    self.code = code
    self.sentence = sentence
    self.mayStillBeApplied = mayStillBeApplied
  }

  /// Whether another profile has the original transaction ID of the update: PostgreSQL's `unique_violation`, as no other
  /// column that is written is unique. The update passes once that profile has let go of it.
  package var isTransactionElsewhere: Bool { code == "23505" }

  /// Whether the store may hide every row from our key. It then answers each write as one of a user without a row.
  package var isAboutHiddenRows: Bool { code == Self.noRowsVisible }
  package static let noRowsVisible = "no_rows_visible"

  /// Whether it may be about this one row, which somebody else has locked, and not about the store: no answer in time,
  /// `query_canceled` for the statement's own time limit, `lock_not_available`.
  package var mayBeOneRows: Bool { ["timed_out", "57014", "55P03"].contains(code) }

  package var description: String { "\(sentence) (\(code))" }
}
