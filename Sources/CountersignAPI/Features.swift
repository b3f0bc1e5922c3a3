/// A user's access to a feature, and the remaining amount.
public struct FeatureState: Codable, Hashable, Sendable {
  public var kind: Kind
  /// A flag is on; of a limit or a meter, the requested amount is allowed.
  public var isAllowed: Bool
  /// One more is allowed at this moment, whatever amount was requested. On the last of some days in a row it is, although
  /// none remains.
  public var isMoreAllowed: Bool
  /// The amount that counts towards the limit; `nil` for a flag.
  @Nullable public var current: Int?
  /// `nil` for a flag, and where there is no limit.
  @Nullable public var limit: Int?
  /// `nil` for a flag, and where there is no limit.
  @Nullable public var remaining: Int?
  /// When more is allowed; `nil` for never, and while some is left.
  @Nullable public var resetsAt: Date?
  /// The lowest tier that would allow a refused amount; `nil` if none would, and if the amount is allowed.
  @Nullable public var upgradeTo: String?

  public init(
    kind: Kind, isAllowed: Bool, isMoreAllowed: Bool, current: Int? = nil, limit: Int? = nil, remaining: Int? = nil,
    resetsAt: Date? = nil, upgradeTo: String? = nil
  ) {
    self.kind = kind
    self.isAllowed = isAllowed
    self.isMoreAllowed = isMoreAllowed
    self.current = current
    self.limit = limit
    self.remaining = remaining
    self.resetsAt = resetsAt
    self.upgradeTo = upgradeTo
  }

  enum CodingKeys: String, CodingKey {
    case kind
    case isAllowed = "allowed"
    case isMoreAllowed = "more_allowed"
    case current, limit, remaining
    case resetsAt = "resets_at"
    case upgradeTo = "upgrade_to"
  }

  /// The kind of a feature.
  public struct Kind: OpenValue {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// On or off.
    public static let flag: Self = "flag"
    /// A number of things that may exist.
    public static let limit: Self = "limit"
    /// An amount that may be consumed.
    public static let meter: Self = "meter"
  }
}

/// The answer about one feature of a user. On the wire the members of `state` stand beside the others.
@dynamicMemberLookup
public struct FeatureResponse: Codable, Hashable, Sendable {
  public var feature: String
  /// The user's tier.
  public var tier: String
  public var state: FeatureState

  public init(feature: String, tier: String, state: FeatureState) {
    self.feature = feature
    self.tier = tier
    self.state = state
  }

  public subscript<Value>(dynamicMember member: KeyPath<FeatureState, Value>) -> Value { state[keyPath: member] }

  enum CodingKeys: String, CodingKey {
    case feature, tier
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    feature = try container.decode(String.self, forKey: .feature)
    tier = try container.decode(String.self, forKey: .tier)
    state = try FeatureState(from: decoder)
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(feature, forKey: .feature)
    try container.encode(tier, forKey: .tier)
    try state.encode(to: encoder)
  }
}

/// The body of `POST /v1/profiles/{user_id}/usage/{feature}`.
public struct UsageRequest: Codable, Hashable, Sendable {
  /// From 1 to 1,000,000; by default 1.
  public var amount: Int?
  /// The user's zone by its name in the IANA database, `Europe/Berlin`: where days, weeks and months begin.
  public var timeZone: String?

  public init(amount: Int? = nil, timeZone: String? = nil) {
    self.amount = amount
    self.timeZone = timeZone
  }

  public enum CodingKeys: String, CodingKey, CaseIterable {
    case amount
    case timeZone = "time_zone"
  }
}

/// The body of `PUT /v1/profiles/{user_id}/usage/{feature}`.
public struct CountRequest: Codable, Hashable, Sendable {
  /// The number of things that exist, from 0 to 1,000,000,000.
  public var count: Int

  public init(count: Int) { self.count = count }
}

/// The answer of `GET /v1/profiles/{user_id}/access`: a user's verdict, features and experiments. On the wire the members
/// of `profile` stand beside the others.
@dynamicMemberLookup
public struct AccessResponse: Codable, Hashable, Sendable {
  public var profile: EntitlementResponse
  /// Every feature of the catalog, by name.
  public var features: [String: FeatureState]
  /// The user's variant of each experiment, by name.
  public var experiments: [String: String]
  /// The zone in which days, weeks and months begin.
  public var timeZone: String

  public init(
    profile: EntitlementResponse, features: [String: FeatureState], experiments: [String: String], timeZone: String
  ) {
    self.profile = profile
    self.features = features
    self.experiments = experiments
    self.timeZone = timeZone
  }

  public subscript<Value>(dynamicMember member: KeyPath<EntitlementResponse, Value>) -> Value {
    profile[keyPath: member]
  }

  enum CodingKeys: String, CodingKey {
    case features, experiments
    case timeZone = "time_zone"
  }

  public init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    features = try container.decode([String: FeatureState].self, forKey: .features)
    experiments = try container.decode([String: String].self, forKey: .experiments)
    timeZone = try container.decode(String.self, forKey: .timeZone)
    profile = try EntitlementResponse(from: decoder)
  }

  public func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(features, forKey: .features)
    try container.encode(experiments, forKey: .experiments)
    try container.encode(timeZone, forKey: .timeZone)
    try profile.encode(to: encoder)
  }
}
