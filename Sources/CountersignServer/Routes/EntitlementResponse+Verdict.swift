package import CountersignAPI
package import Entitlements
import JSON
package import Validation

import struct FoundationEssentials.Date

extension EntitlementResponse {
  package init(user: UserID, entitlement: Entitlement, isFromLedger: Bool, write: Validation.ProfileWrite) {
    self.init(
      userID: user.rawValue, entitlement: EntitlementState(entitlement, isFromLedger: isFromLedger),
      profileWrite: ProfileWrite(rawValue: write.rawValue))
  }

  init(_ answer: ValidatedEntitlement) {
    self.init(
      user: answer.user, entitlement: answer.entitlement, isFromLedger: answer.isFromLedger, write: answer.write)
    isTransactionFound = answer.isTransactionFound
  }

  /// The same bytes as the encoder's, without its allocations: nearly every answer is one of these.
  func writeMembers(to json: inout JSONWriter) {
    json.member("access_until", entitlement.accessUntil?.rfc3339)
    json.member("commitment_expires_at", entitlement.commitmentExpiresAt?.rfc3339)
    json.member("environment", entitlement.environment?.rawValue)
    json.member("evidence_at", entitlement.evidenceAt?.rfc3339)
    json.member("expires_at", entitlement.expiresAt?.rfc3339)
    json.member("is_trial", entitlement.isTrial)
    json.member("next_product_id", entitlement.nextProductID)
    json.member("original_transaction_id", entitlement.originalTransactionID)
    json.member("ownership", entitlement.ownership?.rawValue)
    json.member("product_id", entitlement.productID)
    json.member("profile_write", profileWrite.rawValue)
    json.member("provisional", entitlement.isProvisional)
    json.member("reason", entitlement.reason.rawValue)
    json.member("source", entitlement.source?.rawValue)
    json.member("stale", entitlement.isStale)
    json.member("status", entitlement.status.rawValue)
    json.member("tier", entitlement.tier)
    json.member("transaction_found", isTransactionFound)
    json.member("user_id", userID)
    json.member("will_renew", entitlement.willRenew)
  }
}

extension EntitlementState {
  /// - Parameter isFromLedger: it is read from what is recorded, whatever proved it.
  init(_ entitlement: Entitlement, isFromLedger: Bool = false) {
    self.init(
      tier: entitlement.tier.rawValue, status: Status(rawValue: entitlement.status.rawValue),
      reason: Reason(rawValue: entitlement.reason.rawValue), expiresAt: entitlement.expiresAt,
      accessUntil: entitlement.accessUntil, commitmentExpiresAt: entitlement.commitmentExpiresAt,
      productID: entitlement.productID?.rawValue, originalTransactionID: entitlement.originalTransactionID?.rawValue,
      environment: entitlement.environment.map(Environment.init), willRenew: entitlement.willRenew,
      nextProductID: entitlement.nextProductID?.rawValue, isTrial: entitlement.isTrial,
      ownership: entitlement.ownership.map(Ownership.init), evidenceAt: entitlement.evidenceTime,
      // RevenueCat's evidence, grants and trials keep their source: nobody else can confirm them.
      source: isFromLedger && entitlement.source != .revenuecat && !entitlement.isGiven
        ? .ledger : entitlement.source.map { Source(rawValue: $0.rawValue) },
      isStale: entitlement.isStale, isProvisional: entitlement.isProvisional)
  }
}

extension EntitlementState.Environment {
  init(_ environment: StoreEnvironment) { self.init(rawValue: environment.rawValue) }
}

extension EntitlementState.Ownership {
  init(_ ownership: Purchase.Ownership) { self.init(rawValue: ownership.rawValue) }
}
