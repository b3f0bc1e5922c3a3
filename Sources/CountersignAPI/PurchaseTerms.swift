/// The terms of a transaction, in Apple's words, as sent; a member is absent where Apple does not say. Amounts are text.
///
/// https://developer.apple.com/documentation/appstoreserverapi/jwstransactiondecodedpayload
public struct PurchaseTerms: Codable, Hashable, Sendable {
  /// `PURCHASE`, `RENEWAL`.
  public var transactionReason: String?
  /// The price that was paid, such as `4.99`.
  public var price: String?
  public var currency: String?
  public var storefront: String?
  /// `introductory`, `promotional`, `offer_code`, `win_back`.
  public var offerType: String?
  public var offerID: String?
  /// `FREE_TRIAL`, `PAY_AS_YOU_GO`, `PAY_UP_FRONT`, `ONE_TIME`.
  public var offerDiscountType: String?
  /// Such as `P1M`.
  public var offerPeriod: String?
  /// Apple's ID of the customer's download of the app.
  public var appTransactionID: String?
  /// `REFUND_FULL`, `REFUND_PRORATED`, `FAMILY_REVOKE`.
  public var revocationType: String?
  /// Thousandths of a percent: 45000 is 45 %.
  public var revocationPercentage: Int64?
  /// `BILLED_UPFRONT`, `MONTHLY`.
  public var billingPlan: String?
  /// The number of the payment in the commitment, from 1.
  public var billingPeriod: Int64?
  /// How many payments the commitment has.
  public var billingPeriods: Int64?
  public var commitmentExpiresAt: Date?
  /// The price of the whole commitment.
  public var commitmentPrice: String?
  /// The original transaction ID before a move to the Advanced Commerce API.
  public var previousOriginalTransactionID: String?
  /// The items of an Advanced Commerce purchase.
  public var items: [AdvancedCommerceItem]?

  public init() {}

  enum CodingKeys: String, CodingKey {
    case transactionReason = "transaction_reason"
    case price, currency, storefront
    case offerType = "offer_type"
    case offerID = "offer_id"
    case offerDiscountType = "offer_discount_type"
    case offerPeriod = "offer_period"
    case appTransactionID = "app_transaction_id"
    case revocationType = "revocation_type"
    case revocationPercentage = "revocation_percentage"
    case billingPlan = "billing_plan"
    case billingPeriod = "billing_period"
    case billingPeriods = "billing_periods"
    case commitmentExpiresAt = "commitment_expires_at"
    case commitmentPrice = "commitment_price"
    case previousOriginalTransactionID = "previous_original_transaction_id"
    case items
  }
}

/// The terms of a subscription's next renewal, in Apple's words, as sent; a member is absent where Apple does not say.
///
/// https://developer.apple.com/documentation/appstoreserverapi/jwsrenewalinfodecodedpayload
public struct RenewalTerms: Codable, Hashable, Sendable {
  /// The price of the next period, such as `4.99`.
  public var price: String?
  public var currency: String?
  /// 0: the customer has not answered to a higher price. 1: agreed, or told without a need to agree.
  public var priceIncreaseStatus: Int64?
  /// `introductory`, `promotional`, `offer_code`, `win_back`.
  public var offerType: String?
  public var offerID: String?
  public var offerDiscountType: String?
  /// `BILLED_UPFRONT`, `MONTHLY`.
  public var billingPlan: String?
  /// Whether another commitment follows the present one.
  public var commitmentRenews: Bool?
  public var commitmentExpiresAt: Date?
  /// The product of the next commitment.
  public var commitmentProductID: String?
  public var commitmentBillingPlan: String?
  /// The price of the next commitment.
  public var commitmentPrice: String?
  /// The win-back offers that the customer may redeem, the best first.
  public var winBackOfferIDs: [String]?
  public var items: [AdvancedCommerceItem]?

  public init() {}

  enum CodingKeys: String, CodingKey {
    case price, currency
    case priceIncreaseStatus = "price_increase_status"
    case offerType = "offer_type"
    case offerID = "offer_id"
    case offerDiscountType = "offer_discount_type"
    case billingPlan = "billing_plan"
    case commitmentRenews = "commitment_renews"
    case commitmentExpiresAt = "commitment_expires_at"
    case commitmentProductID = "commitment_product_id"
    case commitmentBillingPlan = "commitment_billing_plan"
    case commitmentPrice = "commitment_price"
    case winBackOfferIDs = "win_back_offer_ids"
    case items
  }
}

/// One of the app's own items in an Advanced Commerce purchase.
public struct AdvancedCommerceItem: Codable, Hashable, Sendable {
  public var sku: String
  public var name: String?
  public var price: String?
  public var revokedAt: Date?

  public init(sku: String, name: String? = nil, price: String? = nil, revokedAt: Date? = nil) {
    self.sku = sku
    self.name = name
    self.price = price
    self.revokedAt = revokedAt
  }

  enum CodingKeys: String, CodingKey {
    case sku, name, price
    case revokedAt = "revoked_at"
  }
}
