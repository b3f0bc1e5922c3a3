import FoundationEssentials

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
