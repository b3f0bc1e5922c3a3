/// The answer to `GET /v1/profiles/me/token`: a signed token of the user's access.
public struct AccessTokenResponse: Codable, Hashable, Sendable {
  /// A JWT in the compact serialization, `typ` `access+jwt`. This service does not accept it.
  public var token: String
  /// The token's expiry. Ask for a new token before it.
  public var expiresAt: Date

  public init(token: String, expiresAt: Date) {
    self.token = token
    self.expiresAt = expiresAt
  }

  enum CodingKeys: String, CodingKey {
    case token
    case expiresAt = "expires_at"
  }
}
