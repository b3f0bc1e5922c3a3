package import Entitlements
package import struct FoundationEssentials.Date

package struct LedgerProfile: Sendable {
  /// Also what is granted provisionally.
  package var evidence: [SubscriptionEvidence]
  /// The verdict last recorded.
  package var entitlement: Entitlement
  /// Grows by one with every recorded verdict on the user.
  package var version: Int64
  /// How far the app's own row of the user has got.
  package var write: ProfileWriteState

  package init(
    evidence: [SubscriptionEvidence], entitlement: Entitlement, version: Int64, write: ProfileWriteState
  ) {
    self.evidence = evidence
    self.entitlement = entitlement
    self.version = version
    self.write = write
  }
}

/// One line of a user's history.
package struct HistoryEntry: Sendable {
  package var sequence: Int64
  package var recordedAt: Date
  package var requestID: String
  package var entitlement: Entitlement
  package var changed: Bool

  package init(sequence: Int64, recordedAt: Date, requestID: String, entitlement: Entitlement, changed: Bool) {
    self.sequence = sequence
    self.recordedAt = recordedAt
    self.requestID = requestID
    self.entitlement = entitlement
    self.changed = changed
  }
}

/// Why an operation did not happen.
package enum LedgerError: Error, Hashable, Sendable {
  /// The disk is full or read-only, or the file is locked by another process. It may pass; nothing was recorded.
  case unavailable(String)
  /// The disk failed (SQLITE_IOERR) or the file is corrupt. The ledger takes no more writes: the process has to stop and
  /// recover from the write-ahead log at its next start, as a failed fsync can "succeed" the next time with the data gone.
  case failed(String)
  /// The ledger was closed.
  case closed
}
