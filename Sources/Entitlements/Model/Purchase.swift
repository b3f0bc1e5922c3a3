package import struct FoundationEssentials.Date

/// One row of Apple's: a purchase, or one renewal of it.
///
/// `Codable` is the form in which the ledger keeps it; a property renamed here needs a migration there.
package struct Purchase: Hashable, Codable, Sendable {
  package enum Ownership: String, Hashable, Codable, Sendable {
    case purchased
    case familyShared = "family_shared"
  }

  package var productID: ProductID
  package var transactionID: TransactionID
  package var originalTransactionID: OriginalTransactionID
  package var webOrderLineItemID: String?
  package var subscriptionGroupID: SubscriptionGroupID?
  package var purchaseDate: Date?
  /// End of the paid period. Absent for what does not renew.
  package var expiresDate: Date?
  /// When Apple refunded it or took it back from a family member.
  package var cancellationDate: Date?
  /// Apple's `cancellation_reason`, as sent: 1 is a problem with the app, 0 is any other.
  package var cancellationReason: Int?
  /// Replaced by a higher plan of the same group; its successor is another row.
  package var isUpgraded: Bool
  package var ownership: Ownership
  package var isTrial: Bool
  package var isIntroductoryOffer: Bool
  /// The UUID that the app gave at the purchase, in lower case.
  package var appAccountToken: String?
  /// When Apple said so, where the evidence was put together from parts; `nil` for the time of the evidence.
  package var reportedAt: Date?

  /// The names in the ledger; one that differs is an older name of the property.
  private enum CodingKeys: String, CodingKey {
    case productID, transactionID, originalTransactionID, webOrderLineItemID, subscriptionGroupID, purchaseDate,
      expiresDate, cancellationDate, cancellationReason, isUpgraded, ownership, isTrial, isIntroductoryOffer,
      appAccountToken
    case reportedAt = "toldAt"
  }

  package init(
    productID: ProductID,
    transactionID: TransactionID,
    originalTransactionID: OriginalTransactionID,
    webOrderLineItemID: String? = nil,
    subscriptionGroupID: SubscriptionGroupID? = nil,
    purchaseDate: Date? = nil,
    expiresDate: Date? = nil,
    cancellationDate: Date? = nil,
    cancellationReason: Int? = nil,
    isUpgraded: Bool = false,
    ownership: Ownership = .purchased,
    isTrial: Bool = false,
    isIntroductoryOffer: Bool = false,
    appAccountToken: String? = nil,
    reportedAt: Date? = nil
  ) {
    self.productID = productID
    self.transactionID = transactionID
    self.originalTransactionID = originalTransactionID
    self.webOrderLineItemID = webOrderLineItemID
    self.subscriptionGroupID = subscriptionGroupID
    self.purchaseDate = purchaseDate
    self.expiresDate = expiresDate
    self.cancellationDate = cancellationDate
    self.cancellationReason = cancellationReason
    self.isUpgraded = isUpgraded
    self.ownership = ownership
    self.isTrial = isTrial
    self.isIntroductoryOffer = isIntroductoryOffer
    self.appAccountToken = appAccountToken
    self.reportedAt = reportedAt
  }
}

/// What Apple says about the next renewal of a subscription (an element of `pending_renewal_info`).
package struct RenewalInfo: Hashable, Codable, Sendable {
  package var originalTransactionID: OriginalTransactionID?
  package var productID: ProductID?
  /// The product of the next period; another than `productID` when a change is queued.
  package var autoRenewProductID: ProductID?
  /// `nil` where Apple did not say. It says nothing about access now.
  package var autoRenews: Bool?
  /// Apple's `expiration_intent`, as sent.
  package var expirationIntent: Int?
  package var isInBillingRetry: Bool?
  package var gracePeriodExpiresDate: Date?
  /// Apple's `renewalDate`: when the newest purchase of the subscription ends, which may be one that is not known here.
  package var periodEnd: Date?
  /// When Apple said so, where the evidence was put together from parts; `nil` for the time of the evidence.
  package var reportedAt: Date?

  /// The names in the ledger; one that differs is an older name of the property.
  private enum CodingKeys: String, CodingKey {
    case originalTransactionID, productID, autoRenewProductID, autoRenews, expirationIntent, isInBillingRetry,
      gracePeriodExpiresDate, periodEnd
    case reportedAt = "toldAt"
  }

  package init(
    originalTransactionID: OriginalTransactionID? = nil,
    productID: ProductID? = nil,
    autoRenewProductID: ProductID? = nil,
    autoRenews: Bool? = nil,
    expirationIntent: Int? = nil,
    isInBillingRetry: Bool? = nil,
    gracePeriodExpiresDate: Date? = nil,
    periodEnd: Date? = nil,
    reportedAt: Date? = nil
  ) {
    self.originalTransactionID = originalTransactionID
    self.productID = productID
    self.autoRenewProductID = autoRenewProductID
    self.autoRenews = autoRenews
    self.expirationIntent = expirationIntent
    self.isInBillingRetry = isInBillingRetry
    self.gracePeriodExpiresDate = gracePeriodExpiresDate
    self.periodEnd = periodEnd
    self.reportedAt = reportedAt
  }
}
