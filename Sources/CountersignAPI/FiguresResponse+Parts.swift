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
    /// All currencies together; `null` without exchange rates.
    @Nullable public var converted: Money?

    public init(period: String, active: Int64, money: [Money], converted: Money? = nil) {
      self.period = period
      self.active = active
      self.money = money
      _converted = Nullable(wrappedValue: converted)
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
    /// All currencies together; `null` without exchange rates.
    @Nullable public var converted: Money?

    private enum CodingKeys: String, CodingKey {
      case productID = "product_id"
      case period, active, money, converted
    }

    public init(productID: String, period: String?, active: Int64, money: [Money], converted: Money? = nil) {
      self.productID = productID
      _period = Nullable(wrappedValue: period)
      self.active = active
      self.money = money
      _converted = Nullable(wrappedValue: converted)
    }
  }

  /// The exchange rates of the service's file.
  public struct Rates: Codable, Hashable, Sendable {
    /// The currency of converted amounts.
    public var currency: String
    /// The first and the last day with rates.
    public var from: String
    public var to: String
    /// Currencies of the span without a rate: their amounts are in no converted sum.
    public var missing: [String]

    public init(currency: String, from: String, to: String, missing: [String]) {
      self.currency = currency
      self.from = from
      self.to = to
      self.missing = missing
    }
  }

  /// The users who have almost as many of a thing as their tier allows.
  public struct NearLimit: Codable, Hashable, Sendable {
    public var feature: String
    public var tier: String
    public var users: Int64

    public init(feature: String, tier: String, users: Int64) {
      self.feature = feature
      self.tier = tier
      self.users = users
    }
  }

  /// The delivery attempts to a receiver of webhooks.
  public struct Webhook: Codable, Hashable, Sendable {
    public var webhook: String
    public var attempts: Int64
    /// Those that succeeded.
    public var delivered: Int64

    public init(webhook: String, attempts: Int64, delivered: Int64) {
      self.webhook = webhook
      self.attempts = attempts
      self.delivered = delivered
    }
  }

  /// The subscriptions that were first paid for in one month.
  public struct Cohort: Codable, Hashable, Sendable {
    /// `2026-01`.
    public var month: String
    public var subscriptions: Int64
    /// How many were paid for on the last day of the month, of the next one, and so on.
    public var active: [Int64]

    public init(month: String, subscriptions: Int64, active: [Int64]) {
      self.month = month
      self.subscriptions = subscriptions
      self.active = active
    }
  }
}
