import FoundationEssentials

/// Checks bearer tokens: JWT signed with ES256 by a development key.
///
/// The store's clock may be moved by months while the service's own clock stands or follows the real one. A token is
/// therefore too old only by all three clocks: the store's now, the store's at its start, and the machine's.
struct DevelopmentBearers: Sendable {
  private let key: SigningKey
  private let keyID: String
  private let startedAt: Timestamp
  private let realNow: @Sendable () -> Timestamp

  /// - Parameters:
  ///   - key: PEM.
  ///   - startedAt: the store's clock at the start.
  init(
    key: String, keyID: String, startedAt: Timestamp,
    realNow: @escaping @Sendable () -> Timestamp = { Timestamp(Date()) }
  ) throws {
    self.key = try SigningKey(pem: key)
    self.keyID = keyID
    self.startedAt = startedAt
    self.realNow = realNow
  }

  struct Header: Decodable {
    var alg: String
    var kid: String
    var typ: String?
  }

  /// - Returns: nil for a token that is not signed by the key, or names another.
  func read<Claims: Decodable>(_ authorization: String?) -> (header: Header, claims: Claims)? {
    guard let authorization, authorization.hasPrefix("Bearer ") else { return nil }
    let parts = authorization.dropFirst("Bearer ".count).split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, let header: Header = Self.decode(parts[0]), let claims: Claims = Self.decode(parts[1]),
      let signature = SignedDataSigner.decode(parts[2]),
      key.hasMadeES256(signature, over: Array("\(parts[0]).\(parts[1])".utf8)),
      header.alg == "ES256", header.kid == keyID
    else { return nil }
    return (header, claims)
  }

  /// Whether a token is of its time, with a minute for a clock ahead of ours.
  func isTimely(issuedAt: Int64, expiry: Int64, now: Timestamp) -> Bool {
    let clocks = [now, startedAt, realNow()].map { $0.milliseconds / Timestamp.second }
    guard let earliest = clocks.min(), let latest = clocks.max() else { return false }
    return expiry > earliest && issuedAt <= latest + 60
  }

  private static func decode<Value: Decodable>(_ part: Substring) -> Value? {
    SignedDataSigner.decode(part).flatMap { try? JSONDecoder().decode(Value.self, from: Data($0)) }
  }
}

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

/// Checks the bearer tokens of DeviceCheck, which are good for an hour.
///
///     header  alg ES256, kid the key's ID
///     claims  iss the team's ID, iat
struct TeamTokens: Sendable {
  /// The key's ID in the developer account.
  static let keyID = "SIMULATOR2"
  static let teamID = "SIMTEAM001"
  private static let lifetime: Int64 = 3_600

  private let bearers: DevelopmentBearers

  /// - Parameter startedAt: the store's clock at the start.
  init(startedAt: Timestamp, realNow: @escaping @Sendable () -> Timestamp = { Timestamp(Date()) }) throws {
    bearers = try DevelopmentBearers(
      key: DevelopmentKeys.deviceCheckKey, keyID: Self.keyID, startedAt: startedAt, realNow: realNow)
  }

  private struct Claims: Decodable {
    var iss: String
    var iat: Int64
  }

  enum Finding {
    case accepted
    /// No JWT.
    case malformed
    case refused
  }

  func check(_ authorization: String?, now: Timestamp) -> Finding {
    guard let authorization, authorization.hasPrefix("Bearer "), authorization.count(where: { $0 == "." }) == 2 else {
      return .malformed
    }
    guard let (_, claims): (DevelopmentBearers.Header, Claims) = bearers.read(authorization),
      claims.iss == Self.teamID
    else { return .refused }
    let (expiry, isTooLarge) = claims.iat.addingReportingOverflow(Self.lifetime)
    return !isTooLarge && bearers.isTimely(issuedAt: claims.iat, expiry: expiry, now: now) ? .accepted : .refused
  }
}
