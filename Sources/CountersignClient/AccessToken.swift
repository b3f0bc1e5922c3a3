import CountersignAPI
import Foundation

/// A signed access token, taken apart. Nothing of it counts before `access(of:keys:verify:)` has checked it.
struct AccessToken {
  /// More than any catalog makes; what is longer is not read.
  static let maximumLength = 64 * 1024

  let keyID: String
  private let claims: Claims
  private let message: Data
  private let signature: Data

  init?(_ text: String) {
    guard text.utf8.count <= Self.maximumLength else { return nil }
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3,
      let header = Data(base64URL: parts[0]), let payload = Data(base64URL: parts[1]),
      let signature = Data(base64URL: parts[2]), signature.count == 64,
      let header = try? JSONDecoder().decode(Header.self, from: header),
      header.alg == "ES256", header.typ?.lowercased() == "access+jwt",
      let claims = try? JSONDecoder().decode(Claims.self, from: payload)
    else { return nil }
    keyID = header.kid
    self.claims = claims
    self.signature = signature
    message = Data("\(parts[0]).\(parts[1])".utf8)
  }

  /// The token's content, if one of the keys signed it for this user.
  func access(of user: String, keys: [SigningKey], verify: SignatureVerifier) -> Access? {
    guard isAbout(user), let key = keys.first(where: { $0.kid == keyID }), verify(signature, message, key) else {
      return nil
    }
    return Access(
      tier: claims.tier, status: claims.status, environment: claims.environment,
      accessUntil: claims.accessUntil.map(Date.init(timeIntervalSince1970:)),
      features: claims.features.mapValues(\.feature), issuedAt: Date(timeIntervalSince1970: claims.iat),
      knownUntil: Date(timeIntervalSince1970: claims.exp),
      offlineUntil: Date(timeIntervalSince1970: claims.offlineUntil))
  }

  /// A UUID is the same user in upper and lower case.
  func isAbout(_ user: String) -> Bool { Self.isSame(claims.sub, user) }

  static func isSame(_ one: String, _ other: String) -> Bool {
    if one == other { return true }
    guard let one = UUID(uuidString: one), let other = UUID(uuidString: other) else { return false }
    return one == other
  }

  /// The user whom a bearer token names, unchecked; `nil` where it is not a JWT.
  static func subject(of bearer: String) -> String? {
    struct Claims: Decodable { var sub: String }
    return claims(Claims.self, of: bearer)?.sub
  }

  /// The claims of a JWT, unchecked.
  static func claims<Claims: Decodable>(_ type: Claims.Type, of text: String) -> Claims? {
    let parts = text.split(separator: ".", omittingEmptySubsequences: false)
    guard parts.count == 3, let payload = Data(base64URL: parts[1]) else { return nil }
    return try? JSONDecoder().decode(type, from: payload)
  }

  private struct Header: Decodable {
    var alg: String
    var typ: String?
    var kid: String
  }

  private struct Claims: Decodable {
    var sub: String
    var iat: Double
    var exp: Double
    var offlineUntil: Double
    var accessUntil: Double?
    var tier: String
    var status: EntitlementState.Status
    var environment: EntitlementState.Environment?
    var features: [String: FeatureClaim]

    enum CodingKeys: String, CodingKey {
      case sub, iat, exp, tier, status, environment, features
      case offlineUntil = "offline_until"
      case accessUntil = "access_until"
    }
  }

  /// `true`, `false`, or the numbers of a limit or a meter.
  private struct FeatureClaim: Decodable {
    var feature: Access.Feature

    init(from decoder: any Decoder) throws {
      if let isOn = try? decoder.singleValueContainer().decode(Bool.self) {
        feature = Access.Feature(isAllowed: isOn)
        return
      }
      let container = try decoder.container(keyedBy: CodingKeys.self)
      feature = Access.Feature(
        isAllowed: try container.decode(Bool.self, forKey: .allowed),
        limit: try container.decodeIfPresent(Int.self, forKey: .limit),
        remaining: try container.decodeIfPresent(Int.self, forKey: .remaining))
    }

    private enum CodingKeys: CodingKey { case allowed, limit, remaining }
  }
}

extension HeldAccess {
  /// The stored form: the token, and after a space the difference of the clocks.
  init?(_ stored: Data, of user: String, keys: [SigningKey], verify: SignatureVerifier?) {
    let parts = String(decoding: stored, as: UTF8.self).split(separator: " ")
    guard let verify, let text = parts.first, let token = AccessToken(String(text)),
      let access = token.access(of: user, keys: keys, verify: verify)
    else { return nil }
    self.init(access: access, clockDifference: parts.dropFirst().first.flatMap { TimeInterval($0) } ?? 0)
  }

  func stored(_ token: String) -> Data { Data("\(token) \(clockDifference)".utf8) }
}
