import FoundationEssentials

/// Checks the bearer tokens of the Server API.
///
///     header  alg ES256, kid the key's ID, typ JWT
///     claims  iss the issuer's ID, aud appstoreconnect-v1, bid a bundle ID, iat, exp at most an hour after iat
///
/// Apple's own libraries send no iat: such a token ends an hour from now at most.
struct DeveloperTokens: Sendable {
  /// The key's ID in App Store Connect.
  static let keyID = "SIMULATOR1"
  static let issuerID = "57246542-96fe-1a63-e053-0824d011072a"

  private static let lifetime: Int64 = 3_600

  private let bearers: DevelopmentBearers

  /// - Parameter startedAt: the store's clock at the start.
  init(startedAt: Timestamp, realNow: @escaping @Sendable () -> Timestamp = { Timestamp(Date()) }) throws {
    bearers = try DevelopmentBearers(
      key: DevelopmentKeys.serverAPIKey, keyID: Self.keyID, startedAt: startedAt, realNow: realNow)
  }

  private struct Claims: Decodable {
    var iss: String
    var iat: Int64?
    var exp: Int64
    var aud: String
    var bid: String

    /// `iat`, or the earliest moment at which a token with this end may have been made; nil for times of no clock.
    var issuedAt: Int64? {
      guard (0...1 << 40).contains(exp) else { return nil }
      return iat.map { (0...1 << 40).contains($0) ? $0 : nil } ?? (exp - DeveloperTokens.lifetime)
    }
  }

  /// - Returns: the caller's app; nil if the token is refused.
  func bundleID(of authorization: String?, now: Timestamp) -> String? {
    guard let (header, claims): (DevelopmentBearers.Header, Claims) = bearers.read(authorization),
      header.typ == "JWT", claims.iss == Self.issuerID, claims.aud == "appstoreconnect-v1", !claims.bid.isEmpty,
      let issuedAt = claims.issuedAt, issuedAt <= claims.exp, claims.exp - issuedAt <= Self.lifetime,
      bearers.isTimely(issuedAt: issuedAt, expiry: claims.exp, now: now)
    else { return nil }
    return claims.bid
  }
}
