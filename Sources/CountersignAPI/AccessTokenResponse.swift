/// The answer to `GET /v1/profiles/me/token`: what the user may do, signed.
public struct AccessTokenResponse: Codable, Hashable, Sendable {
  /// A JWT in the compact serialization, `typ` `access+jwt`. It is no credential of this service.
  public var token: String
  /// When servers stop believing it: ask for a new one before.
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
