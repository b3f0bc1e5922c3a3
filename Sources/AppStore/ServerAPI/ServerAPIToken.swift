import Entitlements
import HTTPTransport
import JSON
import Synchronization

import struct FoundationEssentials.Date

/// A bearer token for one app: a JWT signed with our key (RFC 7519, RFC 7515).
///
///     made at 12:00:00    iat 11:59:30    exp 12:19:30    used until 12:18:30
///
/// The issue date is set back because Apple rejects a token from the future: our clock may be ahead of Apple's by half
/// a minute, and behind by the twenty minutes of the token's life. Apple allows an hour at most; a shorter life costs a
/// signature more often and limits the use of a stolen token.
///
/// https://developer.apple.com/documentation/appstoreserverapi/generating-json-web-tokens-for-api-requests
struct ServerAPIToken: Hashable, Sendable {
  /// The time in seconds by which the issue date is set back.
  static let setBack: Int64 = 30
  static let lifetime: Int64 = 20 * 60
  /// The seconds before its end in which a token is no longer sent.
  static let reserve: Double = 60

  let text: Secret
  let madeAt: Date
  let expiresAt: Date

  init(key: ServerAPIKey, bundleID: BundleID, now: Date) throws(ES256Key.Failure) {
    let issuedAt = Int64(now.timeIntervalSince1970.rounded(.down)) - Self.setBack
    let expiry = issuedAt + Self.lifetime
    var header = JSONObjectWriter()
    header.member("alg", "ES256")
    header.member("kid", key.keyID)
    header.member("typ", "JWT")
    var claims = JSONObjectWriter()
    claims.member("iss", key.issuerID)
    claims.member("aud", "appstoreconnect-v1")
    claims.member("bid", bundleID.rawValue)
    claims.member("iat", issuedAt)
    claims.member("exp", expiry)
    let signed = "\(Base64URL.encode(header.finished())).\(Base64URL.encode(claims.finished()))"
    let signature = try key.key.sign(Array(signed.utf8))
    text = Secret("\(signed).\(Base64URL.encode(signature))")
    madeAt = now
    expiresAt = Date(timeIntervalSince1970: Double(expiry))
  }

  /// Whether the token may still be sent. If our clock was set back, its issue date may be in Apple's future.
  func isFresh(at now: Date) -> Bool {
    now >= madeAt && now < expiresAt.addingTimeInterval(-Self.reserve)
  }
}

/// The tokens in use, one for each app, each sent until shortly before its end.
final class ServerAPITokens: Sendable {
  private let key: ServerAPIKey
  /// Guards the tokens; held while one is made, so that concurrent callers share it.
  private let tokens = Mutex<[BundleID: ServerAPIToken]>([:])

  init(key: ServerAPIKey) { self.key = key }

  func token(for bundleID: BundleID, now: Date) throws(ES256Key.Failure) -> ServerAPIToken {
    try tokens.withLock { tokens throws(ES256Key.Failure) in
      if let token = tokens[bundleID], token.isFresh(at: now) { return token }
      let token = try ServerAPIToken(key: key, bundleID: bundleID, now: now)
      tokens[bundleID] = token
      return token
    }
  }

  /// Forgets a token that Apple rejected, but not a newer one.
  func drop(_ rejected: ServerAPIToken, for bundleID: BundleID) {
    tokens.withLock { tokens in
      if tokens[bundleID] == rejected { tokens[bundleID] = nil }
    }
  }
}
