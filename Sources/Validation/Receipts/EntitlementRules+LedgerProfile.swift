package import Entitlements
package import Ledger

package import struct FoundationEssentials.Date

extension EntitlementRules {
  package func standing(of user: UserID, _ profile: LedgerProfile?, at now: Date) -> Entitlement {
    standing(of: user, profile?.evidence ?? [], recorded: profile?.entitlement, at: now)
  }
}
