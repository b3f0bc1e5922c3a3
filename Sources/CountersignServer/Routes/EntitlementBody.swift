package import Entitlements
import JSON
package import Validation

import struct FoundationEssentials.Date

/// The answer to a validation or to a profile read.
///
/// Every key is always there: what is not known is `null`, so that a client need not tell absent from unknown.
package struct EntitlementBody: Encodable {
  package var user: UserID
  package var entitlement: Entitlement
  package var isFromLedger: Bool
  package var write: ProfileWrite

  package init(user: UserID, entitlement: Entitlement, isFromLedger: Bool, write: ProfileWrite) {
    self.user = user
    self.entitlement = entitlement
    self.isFromLedger = isFromLedger
    self.write = write
  }

  enum CodingKeys: String, CodingKey {
    case userID = "user_id"
    case profileWrite = "profile_write"
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(user.rawValue, forKey: .userID)
    try container.encode(write.rawValue, forKey: .profileWrite)
    try EntitlementMembers(entitlement: entitlement, isFromLedger: isFromLedger).encode(to: encoder)
  }
}

/// The members that every form of a verdict has.
struct EntitlementMembers: Encodable {
  var entitlement: Entitlement
  /// It is read from what is recorded, whatever proved it.
  var isFromLedger = false

  enum CodingKeys: String, CodingKey {
    case tier, status, reason
    case expiresAt = "expires_at"
    case accessUntil = "access_until"
    case productID = "product_id"
    case originalTransactionID = "original_transaction_id"
    case environment
    case willRenew = "will_renew"
    case nextProductID = "next_product_id"
    case isTrial = "is_trial"
    case ownership
    case evidenceAt = "evidence_at"
    case source, stale, provisional
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(entitlement.tier.rawValue, forKey: .tier)
    try container.encode(entitlement.status.rawValue, forKey: .status)
    try container.encode(entitlement.reason.rawValue, forKey: .reason)
    try container.encode(entitlement.expiresAt, forKey: .expiresAt)
    try container.encode(entitlement.accessUntil, forKey: .accessUntil)
    try container.encode(entitlement.productID?.rawValue, forKey: .productID)
    try container.encode(entitlement.originalTransactionID?.rawValue, forKey: .originalTransactionID)
    try container.encode(entitlement.environment?.rawValue, forKey: .environment)
    try container.encode(entitlement.willRenew, forKey: .willRenew)
    try container.encode(entitlement.nextProductID?.rawValue, forKey: .nextProductID)
    try container.encode(entitlement.isTrial, forKey: .isTrial)
    try container.encode(entitlement.ownership?.rawValue, forKey: .ownership)
    try container.encode(entitlement.evidenceTime, forKey: .evidenceAt)
    try container.encode(isFromLedger ? "ledger" : entitlement.source?.rawValue, forKey: .source)
    try container.encode(entitlement.isStale, forKey: .stale)
    try container.encode(entitlement.isProvisional, forKey: .provisional)
  }
}

extension EntitlementBody: JSONWritten {
  /// The same bytes as the encoder's: nearly every answer is one of these.
  func writeMembers(to json: inout JSONObjectWriter) {
    json.member("access_until", entitlement.accessUntil)
    json.member("environment", entitlement.environment?.rawValue)
    json.member("evidence_at", entitlement.evidenceTime)
    json.member("expires_at", entitlement.expiresAt)
    json.member("is_trial", entitlement.isTrial)
    json.member("next_product_id", entitlement.nextProductID?.rawValue)
    json.member("original_transaction_id", entitlement.originalTransactionID?.rawValue)
    json.member("ownership", entitlement.ownership?.rawValue)
    json.member("product_id", entitlement.productID?.rawValue)
    json.member("profile_write", write.rawValue)
    json.member("provisional", entitlement.isProvisional)
    json.member("reason", entitlement.reason.rawValue)
    json.member("source", isFromLedger ? "ledger" : entitlement.source?.rawValue)
    json.member("stale", entitlement.isStale)
    json.member("status", entitlement.status.rawValue)
    json.member("tier", entitlement.tier.rawValue)
    json.member("user_id", user.rawValue)
    json.member("will_renew", entitlement.willRenew)
  }
}

extension EntitlementBody {
  package init(_ answer: ValidatedEntitlement) {
    self.init(
      user: answer.user, entitlement: answer.entitlement, isFromLedger: answer.isFromLedger, write: answer.write)
  }
}
