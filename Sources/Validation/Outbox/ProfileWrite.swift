package import Entitlements
package import Ledger

/// The state of a user's row in the app's own table, for callers.
package enum ProfileWrite: String, Hashable, Sendable, CaseIterable {
  /// A reader of the row sees the verdict now.
  case committed
  /// The verdict is recorded, and the row will follow: the store is slow or away, or its row is newer than the ledger.
  case queued
  case missing
  /// No store is configured.
  case none

  package init(_ state: ProfileWriteState) {
    self =
      switch state {
      case .waiting: .queued
      case .written: .committed
      case .missing: .missing
      }
  }

  /// The state for a caller who is shown another verdict. The row has the recorded one; if time or the rules have moved
  /// on, it will follow.
  package func adjusted(forShown shown: Entitlement, recorded: Entitlement) -> ProfileWrite {
    self == .committed && shown.profileRow != recorded.profileRow ? .queued : self
  }
}
