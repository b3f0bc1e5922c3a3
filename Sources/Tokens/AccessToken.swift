package import FoundationEssentials

/// A user's access, signed: the app and its other servers check it without a request to the service.
///
/// It is no credential: the service accepts no token that it signed itself.
package struct AccessToken: Encodable, Hashable, Sendable {
  /// `typ` of the header (RFC 8725, section 3.11).
  package static let type = "access+jwt"
  /// The time for which a server believes it.
  static let lifetime: TimeInterval = 3_600
  /// The time for which an app may go on with it without a connection.
  static let offline: TimeInterval = 7 * 86_400

  /// The access to a feature, as of the time of issue.
  package enum Feature: Encodable, Hashable, Sendable {
    case flag(Bool)
    /// The numbers of a limit or a meter; `nil`: unlimited.
    case counted(isAllowed: Bool, limit: Int?, remaining: Int?)

    private enum CodingKeys: String, CodingKey {
      case isAllowed = "allowed"
      case limit, remaining
    }

    package func encode(to encoder: any Encoder) throws {
      switch self {
      case .flag(let isOn):
        var container = encoder.singleValueContainer()
        try container.encode(isOn)
      case .counted(let isAllowed, let limit, let remaining):
        var container = encoder.container(keyedBy: CodingKeys.self)
        try container.encode(isAllowed, forKey: .isAllowed)
        try container.encode(limit, forKey: .limit)
        try container.encode(remaining, forKey: .remaining)
      }
    }
  }

  package var issuer: String?
  package var audience: String?
  package var user: String
  package var tier: String
  package var status: String
  package var environment: String?
  package var features: [String: Feature]
  package let issuedAt: Int64
  package let expiresAt: Int64
  package let offlineUntil: Int64
  package let accessUntil: Int64?

  /// - Parameter end: of the access, an outage's hold included; `nil`: it has none.
  package init(
    user: String, tier: String, status: String, environment: String?, features: [String: Feature], until end: Date?,
    now: Date
  ) {
    self.user = user
    self.tier = tier
    self.status = status
    self.environment = environment
    self.features = features
    // NumericDates (RFC 7519, section 2) in whole seconds: an end is never stated later than it is.
    func seconds(_ date: Date) -> Int64 { Int64(date.timeIntervalSince1970.rounded(.down)) }
    issuedAt = seconds(now)
    accessUntil = end.map(seconds)
    expiresAt = min(seconds(now + Self.lifetime), accessUntil ?? .max)
    offlineUntil = min(seconds(now + Self.offline), accessUntil ?? .max)
  }

  package enum CodingKeys: String, CodingKey {
    case issuer = "iss"
    case audience = "aud"
    case user = "sub"
    case issuedAt = "iat"
    case expiresAt = "exp"
    case offlineUntil = "offline_until"
    case accessUntil = "access_until"
    case tier, status, environment, features
  }

  package func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encodeIfPresent(issuer, forKey: .issuer)
    try container.encodeIfPresent(audience, forKey: .audience)
    try container.encode(user, forKey: .user)
    try container.encode(issuedAt, forKey: .issuedAt)
    try container.encode(expiresAt, forKey: .expiresAt)
    try container.encode(offlineUntil, forKey: .offlineUntil)
    try container.encode(accessUntil, forKey: .accessUntil)
    try container.encode(tier, forKey: .tier)
    try container.encode(status, forKey: .status)
    try container.encode(environment, forKey: .environment)
    try container.encode(features, forKey: .features)
  }
}
