package import Entitlements
package import struct FoundationEssentials.Date

/// All that the ledger knows of a user: the evidence, the last verdict, and how far the app's row has got.
package struct LedgerProfile: Sendable {
  /// Evidence that counts, provisional grants included.
  package var evidence: [SubscriptionEvidence]
  /// The user's grants and trials that are not over.
  package var given: [GivenPeriod]
  /// The last recorded verdict.
  package var entitlement: Entitlement
  /// Incremented with every recorded verdict on the user.
  package var version: Int64
  /// The write state of the user's row in the app's table.
  package var write: ProfileWriteState
  /// The version of that row.
  var rowVersion: Int64
}

/// One line of a user's history.
package struct HistoryEntry: Sendable {
  package var recordedAt: Date
  package var requestID: String
  package var entitlement: Entitlement
  package var changed: Bool
}

/// The reason an operation failed.
package enum LedgerError: Error, Hashable, Sendable {
  /// The disk is full or read-only, or another process has locked the file. The state may pass; nothing was recorded.
  case unavailable(String)
  /// A value that is stored or was given cannot be read or kept. It cannot next time either; others can.
  case unusable(String)
  /// The disk failed (SQLITE_IOERR) or the file is corrupt. The ledger accepts no more writes: the process has to stop
  /// and recover from the write-ahead log at its next start, as a failed fsync can "succeed" the next time with the
  /// data gone.
  case failed(String)
  /// The ledger was closed.
  case closed
}
