/// The answer to `GET /v1/profiles/{user_id}/refunds`: the refunds of a user's customers by Apple's own list.
public struct RefundsResponse: Codable, Hashable, Sendable {
  /// A refunded transaction.
  public struct Refund: Codable, Hashable, Sendable {
    /// `production` or `sandbox`.
    public var environment: String
    public var productID: String
    public var transactionID: String
    public var originalTransactionID: String
    @Nullable public var purchasedAt: Date?
    public var refundedAt: Date
    /// Apple's `revocationType`: `REFUND_FULL` or `REFUND_PRORATED`; `nil` where Apple does not say.
    @Nullable public var revocationType: String?
    /// The part of the price that was given back, in thousandths of a percent; `nil` where Apple does not say.
    @Nullable public var revocationPercentage: Int64?
    /// The user who has the purchase; `nil`: nobody has.
    @Nullable public var userID: String?
    /// Whether nothing had told of it before this request.
    public var isNew: Bool

    public init(
      environment: String, productID: String, transactionID: String, originalTransactionID: String, purchasedAt: Date?,
      refundedAt: Date, revocationType: String?, revocationPercentage: Int64?, userID: String?, isNew: Bool
    ) {
      self.environment = environment
      self.productID = productID
      self.transactionID = transactionID
      self.originalTransactionID = originalTransactionID
      self.purchasedAt = purchasedAt
      self.refundedAt = refundedAt
      self.revocationType = revocationType
      self.revocationPercentage = revocationPercentage
      self.userID = userID
      self.isNew = isNew
    }

    enum CodingKeys: String, CodingKey {
      case environment
      case productID = "product_id"
      case transactionID = "transaction_id"
      case originalTransactionID = "original_transaction_id"
      case purchasedAt = "purchased_at"
      case refundedAt = "refunded_at"
      case revocationType = "revocation_type"
      case revocationPercentage = "revocation_percentage"
      case userID = "user_id"
      case isNew = "new"
    }
  }

  public var userID: String
  /// `answered`; `unavailable`: Apple did not answer about every purchase; `not_asked`: there is no purchase at Apple's;
  /// `not_configured`: there is no key.
  public var appStore: String
  /// The newest first.
  public var refunds: [Refund]

  public init(userID: String, appStore: String, refunds: [Refund]) {
    self.userID = userID
    self.appStore = appStore
    self.refunds = refunds
  }

  enum CodingKeys: String, CodingKey {
    case userID = "user_id"
    case appStore = "app_store"
    case refunds
  }
}
