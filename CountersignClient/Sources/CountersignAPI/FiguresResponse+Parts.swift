extension FiguresResponse {
  /// The users with a tier and a status, by their last verdicts.
  public struct Subscribers: Codable, Hashable, Sendable {
    public var tier: String
    public var status: String
    public var users: Int64

    public init(tier: String, status: String, users: Int64) {
      self.tier = tier
      self.status = status
      self.users = users
    }
  }

  /// The subscriptions that are paid for equally often.
  public struct Cycle: Codable, Hashable, Sendable {
    /// The length of a period (ISO 8601): `P1M`.
    public var period: String
    /// Paid subscriptions on the last day.
    public var active: Int64
    /// By currency.
    public var money: [Money]

    public init(period: String, active: Int64, money: [Money]) {
      self.period = period
      self.active = active
      self.money = money
    }
  }

  /// The subscriptions to a product, or its purchases.
  public struct Product: Codable, Hashable, Sendable {
    public var productID: String
    /// The length of a period (ISO 8601): `P1M`; `null` for what is bought once.
    @Nullable public var period: String?
    /// Paid subscriptions on the last day.
    public var active: Int64
    /// By currency.
    public var money: [Money]

    private enum CodingKeys: String, CodingKey {
      case productID = "product_id"
      case period, active, money
    }

    public init(productID: String, period: String?, active: Int64, money: [Money]) {
      self.productID = productID
      _period = Nullable(wrappedValue: period)
      self.active = active
      self.money = money
    }
  }
}
