package import struct FoundationEssentials.Date

/// The fields of a notification that no verdict shows.
///
/// https://developer.apple.com/documentation/appstoreservernotifications/responsebodyv2decodedpayload
package struct StoreNotice: Hashable, Codable, Sendable {
  /// Apple's UUID, or a name that was derived from the payload.
  package var uuid: String
  /// `notificationType` and `subtype` as sent.
  package var type: String
  package var subtype: String?
  package var environment: String?
  package var bundleID: String?
  package var signedAt: Date?
  // Of a purchase.
  package var productID: String?
  package var transactionID: String?
  package var originalTransactionID: String?
  /// After a migration to another way of selling.
  package var previousOriginalTransactionID: String?
  package var consumptionRequestReason: String?
  /// `priceIncreaseStatus` as sent: 0 not answered, 1 agreed.
  package var priceIncreaseStatus: Int?
  package var expiresAt: Date?
  // Of a customer's consent that was taken back.
  package var appTransactionID: String?
  // Of an external purchase.
  package var externalPurchaseID: String?
  package var tokenType: String?
  package var tokenCreatedAt: Date?
  package var tokenExpiresAt: Date?
  // Of the extension of many subscriptions.
  package var requestID: String?
  package var storefronts: [String]?
  package var succeeded: Int64?
  package var failed: Int64?

  package init(uuid: String, type: String) {
    self.uuid = uuid
    self.type = type
  }
}
