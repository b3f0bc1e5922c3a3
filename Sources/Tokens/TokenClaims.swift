package import Entitlements

package import struct FoundationEssentials.Date

/// The claims of a token that are used (RFC 7519, section 4.1; `role` is Supabase's).
package struct TokenClaims: Decodable, Hashable, Sendable {
  var subject: String?
  /// Seconds since 1970, like the other two.
  var expiry: Double?
  var notBefore: Double?
  var issuedAt: Double?
  var issuer: String?
  var audience: [String]
  var roles: [String]

  enum CodingKeys: String, CodingKey {
    case subject = "sub"
    case expiry = "exp"
    case notBefore = "nbf"
    case issuedAt = "iat"
    case issuer = "iss"
    case audience = "aud"
    case roles = "role"
  }

  package init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    subject = try container.decodeIfPresent(String.self, forKey: .subject)
    expiry = try container.decodeIfPresent(Double.self, forKey: .expiry)
    notBefore = try container.decodeIfPresent(Double.self, forKey: .notBefore)
    issuedAt = try container.decodeIfPresent(Double.self, forKey: .issuedAt)
    issuer = try container.decodeIfPresent(String.self, forKey: .issuer)
    audience = try container.decodeIfPresent(Words.self, forKey: .audience)?.words ?? []
    // Another provider's claim may have any type.
    roles = (try? container.decodeIfPresent(Words.self, forKey: .roles))?.words ?? []
  }

  private struct Words: Decodable {
    var words: [String]

    init(from decoder: any Decoder) throws {
      let container = try decoder.singleValueContainer()
      if let word = try? container.decode(String.self) {
        words = [word]
      } else {
        words = try container.decode([String].self)
      }
    }
  }
}

/// Maps verified claims to a user, if they are valid at a moment. Pure.
///
///     now          nbf, iat ≤ now + leeway        now < exp + leeway
///      │ leeway │                                     │ leeway │
package struct TokenRules: Hashable, Sendable {
  /// `nil`: not checked.
  package var issuer: String?
  /// `nil`: not checked.
  package var audience: String?
  /// The tolerated difference of the issuer's clock.
  package var leeway: Duration

  package init(issuer: String? = nil, audience: String? = nil, leeway: Duration) {
    self.issuer = issuer
    self.audience = audience
    self.leeway = leeway
  }

  /// Roles of Supabase's two API keys, which are signed like users' tokens. One is in every copy of the app, the other
  /// opens everything, and neither names a user.
  static let rolesOfNobody: Set<String> = ["anon", "service_role"]

  package func user(of claims: TokenClaims, at now: Date) throws(TokenRefusal) -> UserID {
    let now = now.timeIntervalSince1970
    let leeway = leeway / .seconds(1)
    guard let expiry = claims.expiry else { throw .noExpiry }
    guard now < expiry + leeway else { throw .expired }
    for moment in [claims.notBefore, claims.issuedAt] {
      if let moment, moment > now + leeway { throw .notYetValid }
    }
    if let issuer, claims.issuer != issuer { throw .issuer }
    if let audience, !claims.audience.contains(audience) { throw .audience }
    guard Self.rolesOfNobody.isDisjoint(with: claims.roles) else { throw .role }
    guard let subject = claims.subject, let user = UserID(valid: subject) ?? Self.appUser(subject) else {
      throw .noSubject
    }
    return user
  }

  /// A subject with signs that RevenueCat's SDKs allow alone, in its normal form: another spelling may be another user of
  /// the issuer's.
  private static func appUser(_ subject: String) -> UserID? {
    UserID(appUserID: subject).flatMap { $0.rawValue.utf8.elementsEqual(subject.utf8) ? $0 : nil }
  }
}
