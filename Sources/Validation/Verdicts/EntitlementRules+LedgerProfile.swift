package import Entitlements
package import Ledger

package import struct FoundationEssentials.Date

extension EntitlementRules {
  /// The entitlement that a read shows now, without an answer from Apple.
  package func standing(of user: UserID, _ profile: LedgerProfile?, at now: Date) -> Entitlement {
    standing(of: user, profile?.evidence ?? [], given: profile?.given ?? [], recorded: profile?.entitlement, at: now)
  }
}
