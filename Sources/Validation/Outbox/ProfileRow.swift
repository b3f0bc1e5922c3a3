import Entitlements
package import Ledger
package import Profiles

import struct FoundationEssentials.Date

struct ProfileRow: Hashable, Sendable {
  var tier: Tier
  var status: SubscriptionStatus
  /// The end of access, past or future: an app can compare it with its own clock.
  var expiresAt: Date?
  var originalTransactionID: OriginalTransactionID?
}

extension Entitlement {
  var profileRow: ProfileRow {
    ProfileRow(
      tier: tier, status: status, expiresAt: accessUntil ?? (status == .expired ? expiresAt : nil),
      originalTransactionID: originalTransactionID)
  }
}

extension ProfileUpdate {
  package init(_ update: WaitingUpdate) {
    let row = update.entitlement.profileRow
    self.init(
      user: update.user, version: update.version, tier: row.tier, status: row.status, expiresAt: row.expiresAt,
      originalTransactionID: row.originalTransactionID)
  }
}
