import Cryptography
import HTTPTransport
import JSON
import Synchronization
import struct FoundationEssentials.Date

/// A bearer token for a service of Apple's: a JWT signed with our key (RFC 7519, RFC 7515).
///
///     made at 12:00:00, for 20 minutes    iat 11:59:30    end 12:19:30    used until 12:18:30
///
/// The issue date is set back because Apple rejects a token from the future: our clock may be ahead of Apple's by half
/// a minute.
struct DeveloperToken: Hashable, Sendable {
  /// The time in seconds by which the issue date is set back.
  static let setBack: Int64 = 30
  /// The seconds before its end in which a token is no longer sent.
  static let reserve: Double = 60

  let text: Secret
  let madeAt: Date
  let expiresAt: Date

  /// - Parameters:
  ///   - lifetime: the seconds from the issue date to the end.
  ///   - addClaims: adds the service's own claims to `iss` and `iat`; `expiry` is the end in UNIX time.
  init(
    key: ES256PrivateKey, keyID: String, issuer: String, lifetime: Int64, now: Date,
    addClaims: (_ claims: inout JSONWriter, _ expiry: Int64) -> Void = { _, _ in }
  ) throws(ES256PrivateKey.Failure) {
    let issuedAt = Int64(now.timeIntervalSince1970.rounded(.down)) - Self.setBack
    let expiry = issuedAt + lifetime
    text = Secret(
      try key.jwt(keyID: keyID) { claims in
        claims.member("iss", issuer)
        claims.member("iat", issuedAt)
        addClaims(&claims, expiry)
      })
    madeAt = now
    expiresAt = Date(timeIntervalSince1970: Double(expiry))
  }

  /// Whether the token may still be sent. If our clock was set back, its issue date may be in Apple's future.
  func isFresh(at now: Date) -> Bool { now >= madeAt && now < expiresAt.addingTimeInterval(-Self.reserve) }
}

/// The tokens in use, one for each key, each sent until shortly before its end.
final class DeveloperTokens<Key: Hashable & Sendable>: Sendable {
  typealias Sign = @Sendable (Key, _ now: Date) throws(ES256PrivateKey.Failure) -> DeveloperToken

  private let sign: Sign
  /// Guards the tokens; held while one is made, so that concurrent callers share it.
  private let tokens = Mutex<[Key: DeveloperToken]>([:])

  init(sign: @escaping Sign) { self.sign = sign }

  func token(for key: Key, now: Date) throws(ES256PrivateKey.Failure) -> DeveloperToken {
    try tokens.withLock { tokens throws(ES256PrivateKey.Failure) in
      if let token = tokens[key], token.isFresh(at: now) { return token }
      let token = try sign(key, now)
      tokens[key] = token
      return token
    }
  }

  /// Forgets a token that Apple rejected, but not a newer one.
  func drop(_ rejected: DeveloperToken, for key: Key) {
    tokens.withLock { tokens in
      if tokens[key] == rejected { tokens[key] = nil }
    }
  }
}

extension ES256PrivateKey {
  /// A JWT in the compact form (RFC 7519, RFC 7515).
  func jwt(keyID: String, _ addClaims: (inout JSONWriter) -> Void) throws(Failure) -> String {
    let header = JSONWriter.object { header in
      header.member("alg", "ES256")
      header.member("kid", keyID)
      header.member("typ", "JWT")
    }
    let signed = "\(Base64URL.encode(header)).\(Base64URL.encode(JSONWriter.object(addClaims)))"
    return "\(signed).\(Base64URL.encode(try sign(Array(signed.utf8))))"
  }
}
