/// The answer to `GET /v1/brake`: the state of the downgrade brake, which stops the service from lowering tiers.
public struct BrakeState: Codable, Hashable, Sendable {
  public var isEngaged: Bool
  @Nullable public var since: Date?
  /// Verdicts in the day before it engaged.
  @Nullable public var lookedAt: Int?
  /// Verdicts among them that lowered a tier.
  @Nullable public var lowered: Int?
  /// Verdicts that the brake has held back since.
  @Nullable public var withheld: Int?
  /// Users whom a changed catalog or policy would lower, and who keep their tier until the brake is released.
  public var withheldByRules: Int

  public init(
    isEngaged: Bool, since: Date? = nil, lookedAt: Int? = nil, lowered: Int? = nil, withheld: Int? = nil,
    withheldByRules: Int
  ) {
    self.isEngaged = isEngaged
    self.since = since
    self.lookedAt = lookedAt
    self.lowered = lowered
    self.withheld = withheld
    self.withheldByRules = withheldByRules
  }

  enum CodingKeys: String, CodingKey {
    case isEngaged = "engaged"
    case since
    case lookedAt = "looked_at"
    case lowered, withheld
    case withheldByRules = "withheld_by_rules"
  }
}
