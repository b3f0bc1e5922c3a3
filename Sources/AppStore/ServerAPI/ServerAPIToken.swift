import Entitlements
import HTTPTransport
import JSON
import Synchronization

import struct FoundationEssentials.Date

/// A bearer token for one app: a JWT that our key signed (RFC 7519, RFC 7515).
///
///     made at 12:00:00    iat 11:59:30    exp 12:19:30    used until 12:18:30
///
/// The issue date is set back, because Apple takes a token from the future for a bad one: our clock may run ahead of
/// Apple's by half a minute without a 401. It may lag by the twenty minutes of the token's life. Apple allows an hour at
/// most; a shorter life costs a signature more and limits what a stolen token is good for.
///
/// https://developer.apple.com/documentation/appstoreserverapi/generating-json-web-tokens-for-api-requests
struct ServerAPIToken: Hashable, Sendable {
  /// All in seconds.
  static let setBack: Int64 = 30
  static let lifetime: Int64 = 20 * 60
  /// Not used so shortly before its end, as it might end on the way.
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

  /// Whether it may still be sent. One that our clock has fallen behind was issued in what may be Apple's future.
  func isFresh(at now: Date) -> Bool {
    now >= madeAt && now < expiresAt.addingTimeInterval(-Self.reserve)
  }
}

/// The tokens in use: one for each app, made once and sent with every request until shortly before its end.
final class ServerAPITokens: Sendable {
  private let key: ServerAPIKey
  /// Guards the tokens; held while one is made, so that callers who come together share it.
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

  /// Forgets a token that Apple did not take; not one that another caller has made since.
  func drop(_ rejected: ServerAPIToken, for bundleID: BundleID) {
    tokens.withLock { tokens in
      if tokens[bundleID] == rejected { tokens[bundleID] = nil }
    }
  }
}
