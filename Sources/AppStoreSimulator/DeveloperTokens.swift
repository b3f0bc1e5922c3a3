import FoundationEssentials

/// Checks the bearer tokens of the Server API: a JWT signed with ES256 by the development key.
///
///     header  alg ES256, kid the key's ID, typ JWT
///     claims  iss the issuer's ID, aud appstoreconnect-v1, bid a bundle ID, iat, exp at most an hour after iat
///
/// The store's clock may be moved by months while the service's own clock stands or follows the real one. A token is
/// therefore too old only by all three clocks: the store's now, the store's at its start, and the machine's.
struct DeveloperTokens: Sendable {
  /// The key's ID in App Store Connect.
  static let keyID = "SIMULATOR1"
  static let issuerID = "57246542-96fe-1a63-e053-0824d011072a"

  private let key: SigningKey
  private let startedAt: Timestamp
  private let realNow: @Sendable () -> Timestamp

  /// - Parameter startedAt: the store's clock at the start.
  init(startedAt: Timestamp, realNow: @escaping @Sendable () -> Timestamp = { Timestamp(Date()) }) throws {
    key = try SigningKey(pem: DevelopmentKeys.serverAPIKey)
    self.startedAt = startedAt
    self.realNow = realNow
  }

  private struct Header: Decodable {
    var alg: String
    var kid: String
    var typ: String
  }

  private struct Claims: Decodable {
    var iss: String
    var iat: Int64
    var exp: Int64
    var aud: String
    var bid: String
  }

  /// - Returns: the caller's app; nil if the token is refused.
  func bundleID(of authorization: String?, now: Timestamp) -> String? {
    guard let authorization, authorization.hasPrefix("Bearer ") else { return nil }
    let parts = authorization.dropFirst("Bearer ".count).split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, let header: Header = Self.decode(parts[0]), let claims: Claims = Self.decode(parts[1]),
      let signature = SignedDataSigner.decode(parts[2]),
      key.hasMadeES256(signature, over: Array("\(parts[0]).\(parts[1])".utf8))
    else { return nil }
    guard header.alg == "ES256", header.kid == Self.keyID, header.typ == "JWT", claims.iss == Self.issuerID,
      claims.aud == "appstoreconnect-v1", !claims.bid.isEmpty,
      claims.iat <= claims.exp, claims.exp.subtractingReportingOverflow(claims.iat).partialValue <= 3_600
    else { return nil }
    let clocks = [now, startedAt, realNow()].map { $0.milliseconds / Timestamp.second }
    guard let earliest = clocks.min(), let latest = clocks.max(), claims.exp > earliest, claims.iat <= latest + 60
    else {
      return nil
    }
    return claims.bid
  }

  private static func decode<Value: Decodable>(_ part: Substring) -> Value? {
    SignedDataSigner.decode(part).flatMap { try? JSONDecoder().decode(Value.self, from: Data($0)) }
  }
}
