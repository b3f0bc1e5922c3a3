package import Entitlements
package import struct FoundationEssentials.Date

/// A given period as the ledger keeps it: by whom and why, and whether somebody ended it early.
package struct GivenRecord: Hashable, Sendable {
  package var user: UserID
  package var period: GivenPeriod
  /// When it was ended early; `period.endsAt` is the end that was planned.
  package var endedAt: Date?
  /// The name of the key that gave it.
  package var author: String
  package var note: String?
  package var requestID: String
  package var recordedAt: Date

  /// The first moment that is no longer part of it.
  package var endsAt: Date { min(endedAt ?? period.endsAt, period.endsAt) }
}
