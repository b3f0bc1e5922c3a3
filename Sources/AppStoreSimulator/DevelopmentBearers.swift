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
