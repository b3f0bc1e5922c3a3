import Entitlements

import struct FoundationEssentials.Date

/// One paid period as Apple told of it last, and what came after it: for a picture of what a user bought when.
struct PurchasePeriod: Encodable, Hashable {
  var originalTransactionID: OriginalTransactionID
  var transactionID: TransactionID
  var environment: StoreEnvironment
  var productID: ProductID
  /// What it grants while it runs; `nil` for a product that is not in the catalog.
  var tier: Tier?
  var startsAt: Date?
  /// `nil` for a purchase for life.
  var endsAt: Date?
  /// When Apple refunded it or took it back.
  var takenBackAt: Date?
  /// Told, or known by what was bought in its place.
  var isUpgraded: Bool
  var isTrial: Bool
  var ownership: Purchase.Ownership
  /// The end of Apple's grace period after it.
  var graceUntil: Date?
  /// Until when this app gives access while Apple retries the payment.
  var retryUntil: Date?
  /// Granted on Apple's signature alone, until then.
  var provisionalUntil: Date?

  /// A customer who buys weekly for four years has no more; Apple tells of the newest of each subscription only.
  static let limit = 200

  /// The one that ends last first.
  static func all(
    of evidence: [SubscriptionEvidence], catalog: Catalog, policy: EntitlementPolicy
  ) -> [PurchasePeriod] {
    let periods = evidence.flatMap { item in
      let upgraded = item.upgradedTransactions
      let last = item.purchases.filter { $0.cancellationDate == nil && !upgraded.contains($0.transactionID) }
        .compactMap(\.expiresDate).max()
      return item.purchases.map { purchase in
        var period = PurchasePeriod(purchase, of: item, catalog: catalog)
        period.isUpgraded = upgraded.contains(purchase.transactionID)
        guard let end = purchase.expiresDate, end == last, let renewal = item.renewal(of: purchase) else {
          return period
        }
        period.graceUntil = renewal.gracePeriodExpiresDate
        if period.graceUntil == nil, renewal.isInBillingRetry == true, policy.billingRetryAccess > .zero {
          period.retryUntil = end.advanced(by: policy.billingRetryAccess)
        }
        return period
      }
    }
    return Array(
      periods.sorted { one, other in
        let ends = (one.endsAt ?? .distantFuture, other.endsAt ?? .distantFuture)
        return ends.0 == ends.1 ? one.transactionID.rawValue > other.transactionID.rawValue : ends.0 > ends.1
      }.prefix(limit))
  }

  private init(_ purchase: Purchase, of evidence: SubscriptionEvidence, catalog: Catalog) {
    let product = catalog.products[purchase.productID]
    originalTransactionID = evidence.key.originalTransactionID
    transactionID = purchase.transactionID
    environment = evidence.key.environment
    productID = purchase.productID
    tier = product?.tier
    startsAt = purchase.purchaseDate
    endsAt = product?.kind == .lifetime ? nil : purchase.expiresDate
    takenBackAt = purchase.cancellationDate
    isUpgraded = purchase.isUpgraded
    isTrial = purchase.isTrial
    ownership = purchase.ownership
    provisionalUntil = evidence.provisionalUntil
  }

  enum CodingKeys: String, CodingKey {
    case originalTransactionID = "original_transaction_id"
    case transactionID = "transaction_id"
    case environment
    case productID = "product_id"
    case tier
    case startsAt = "starts_at"
    case endsAt = "ends_at"
    case takenBackAt = "taken_back_at"
    case isUpgraded = "is_upgraded"
    case isTrial = "is_trial"
    case ownership
    case graceUntil = "grace_until"
    case retryUntil = "retry_until"
    case provisionalUntil = "provisional_until"
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(originalTransactionID.rawValue, forKey: .originalTransactionID)
    try container.encode(transactionID.rawValue, forKey: .transactionID)
    try container.encode(environment.rawValue, forKey: .environment)
    try container.encode(productID.rawValue, forKey: .productID)
    try container.encode(tier?.rawValue, forKey: .tier)
    try container.encode(startsAt, forKey: .startsAt)
    try container.encode(endsAt, forKey: .endsAt)
    try container.encode(takenBackAt, forKey: .takenBackAt)
    try container.encode(isUpgraded, forKey: .isUpgraded)
    try container.encode(isTrial, forKey: .isTrial)
    try container.encode(ownership.rawValue, forKey: .ownership)
    try container.encode(graceUntil, forKey: .graceUntil)
    try container.encode(retryUntil, forKey: .retryUntil)
    try container.encode(provisionalUntil, forKey: .provisionalUntil)
  }
}
