/// The answer of `GET /v1/plans`: the tiers and offerings for a paywall.
public struct PlansResponse: Codable, Hashable, Sendable {
  /// Every tier, ascending.
  public var plans: [Plan]
  public var offerings: [Offering]
  /// The name of the offering to show; `nil` where the catalog has none.
  @Nullable public var currentOffering: String?

  public init(plans: [Plan], offerings: [Offering], currentOffering: String?) {
    self.plans = plans
    self.offerings = offerings
    self.currentOffering = currentOffering
  }

  enum CodingKeys: String, CodingKey {
    case plans, offerings
    case currentOffering = "current_offering"
  }
}

extension PlansResponse {
  /// A tier with its products and features.
  public struct Plan: Codable, Hashable, Sendable {
    public var tier: String
    /// The display name; the tier's own where the catalog has none.
    public var name: String
    @Nullable public var description: String?
    /// Whether it is sold. Users keep one that is not.
    public var active: Bool
    /// By name.
    public var features: [String: Allowance]
    /// The products that give this tier, in the order of their IDs.
    public var products: [Product]

    public init(
      tier: String, name: String, description: String?, active: Bool = true, features: [String: Allowance],
      products: [Product]
    ) {
      self.tier = tier
      self.name = name
      self.description = description
      self.active = active
      self.features = features
      self.products = products
    }
  }

  /// A tier's share of a feature.
  public struct Allowance: Codable, Hashable, Sendable {
    public var kind: FeatureState.Kind
    /// A flag is on; of a limit or a meter, the tier has some.
    public var isIncluded: Bool
    /// The number of things that may exist; `nil` where there is no limit, and for the other kinds.
    @Nullable public var limit: Int?
    /// The rules of a meter, all of which hold: `10 per month`. An empty list is unlimited.
    public var rules: [String]

    public init(kind: FeatureState.Kind, isIncluded: Bool, limit: Int? = nil, rules: [String] = []) {
      self.kind = kind
      self.isIncluded = isIncluded
      self.limit = limit
      self.rules = rules
    }

    enum CodingKeys: String, CodingKey {
      case kind
      case isIncluded = "included"
      case limit, rules
    }
  }

  /// A product of the App Store.
  public struct Product: Codable, Hashable, Sendable {
    public var productID: String
    /// The display name; the ID where the catalog has none.
    public var name: String
    /// Whether it is sold. Purchases of one that is not count as before.
    public var active: Bool
    public var kind: Kind
    /// ISO 8601, `P1M`; `nil` where the catalog does not say.
    @Nullable public var period: String?
    /// By currency, exact: `{"USD": "4.99"}`. The App Store charges its own price.
    public var prices: [String: String]

    public init(
      productID: String, name: String? = nil, active: Bool = true, kind: Kind, period: String?, prices: [String: String]
    ) {
      self.productID = productID
      self.name = name ?? productID
      self.active = active
      self.kind = kind
      self.period = period
      self.prices = prices
    }

    enum CodingKeys: String, CodingKey {
      case productID = "product_id"
      case name, active, kind, period, prices
    }

    /// The kind of a product.
    public struct Kind: OpenValue {
      public let rawValue: String
      public init(rawValue: String) { self.rawValue = rawValue }

      public static let subscription: Self = "subscription"
      public static let lifetime: Self = "lifetime"
    }
  }

  /// Products that a paywall shows together.
  public struct Offering: Codable, Hashable, Sendable {
    public var name: String
    /// In the order of the catalog.
    public var packages: [Package]
    /// For the app's own use.
    public var metadata: [String: JSONMember]

    public init(name: String, packages: [Package], metadata: [String: JSONMember]) {
      self.name = name
      self.packages = packages
      self.metadata = metadata
    }
  }

  /// A product in its place on a paywall.
  public struct Package: Codable, Hashable, Sendable {
    /// `$rc_monthly`, or any other.
    public var name: String
    public var productID: String

    public init(name: String, productID: String) {
      self.name = name
      self.productID = productID
    }

    enum CodingKeys: String, CodingKey {
      case name
      case productID = "product_id"
    }
  }

  /// Any JSON value (RFC 8259). Whole numbers keep their digits up to 64 bits.
  public indirect enum JSONMember: Codable, Hashable, Sendable {
    case null
    case boolean(Bool)
    case integer(Int)
    case number(Double)
    case text(String)
    case list([JSONMember])
    case object([String: JSONMember])

    public init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if container.decodeNil() {
        self = .null
      } else if let value = try? container.decode(Bool.self) {
        self = .boolean(value)
      } else if let value = try? container.decode(Int.self) {
        self = .integer(value)
      } else if let value = try? container.decode(Double.self) {
        self = .number(value)
      } else if let value = try? container.decode(String.self) {
        self = .text(value)
      } else if let value = try? container.decode([JSONMember].self) {
        self = .list(value)
      } else {
        self = .object(try container.decode([String: JSONMember].self))
      }
    }

    public func encode(to encoder: any Encoder) throws {
      var container = encoder.singleValueContainer()
      switch self {
      case .null: try container.encodeNil()
      case .boolean(let value): try container.encode(value)
      case .integer(let value): try container.encode(value)
      case .number(let value): try container.encode(value)
      case .text(let value): try container.encode(value)
      case .list(let value): try container.encode(value)
      case .object(let value): try container.encode(value)
      }
    }
  }
}
