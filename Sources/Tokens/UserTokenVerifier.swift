package import Entitlements

package import struct FoundationEssentials.Date

/// The reason why a token gives no user.
package enum TokenError: Error, Hashable, Sendable {
  case refused(TokenRefusal)
  /// The issuer's keys could not be fetched, so the token cannot be verified: not the caller's fault.
  case keysUnavailable
}

/// Verifies the user token of a request: parses it, finds the key, verifies the signature, checks the claims.
package struct UserTokenVerifier: Sendable {
  /// For HS256; `nil` without a configured secret.
  package var secret: TokenKey?
  /// For RS256 and ES256; `nil` without a configured URL.
  package var keySet: RemoteKeySet?
  package var rules: TokenRules
  /// The machine's clock: a token is dated by its issuer, so Apple's clock is irrelevant.
  package var now: @Sendable () -> Date
  /// Shared by the copies of this value.
  var verified = VerifiedTokens()

  package init(
    secret: TokenKey? = nil, keySet: RemoteKeySet? = nil, rules: TokenRules, now: @escaping @Sendable () -> Date,
    verified: VerifiedTokens = VerifiedTokens()
  ) {
    self.secret = secret
    self.keySet = keySet
    self.rules = rules
    self.now = now
    self.verified = verified
  }

  /// As `user`; `nil` where the key has to be fetched first.
  package func knownUser(presenting text: String) throws(TokenError) -> UserID? {
    let token = try refusing { () throws(TokenRefusal) in try UserToken(text) }
    let isSecret = token.algorithm == SignatureKey.Algorithm.hs256.rawValue
    guard let key = isSecret ? secret : keySet?.knownKey(for: token) else { return nil }
    return try refusing { () throws(TokenRefusal) in try user(of: token, by: key) }
  }

  package func user(presenting text: String) async throws(TokenError) -> UserID {
    let token = try refusing { () throws(TokenRefusal) in try UserToken(text) }
    guard let key = try await key(for: token) else { throw .refused(.algorithm) }
    return try refusing { () throws(TokenRefusal) in try user(of: token, by: key) }
  }

  private func user(of token: UserToken, by key: TokenKey) throws(TokenRefusal) -> UserID {
    try verified.verify(token, by: key) { () throws(TokenRefusal) in try rules.user(of: token.claims(), at: now()) }
  }

  private func refusing<Value>(_ step: () throws(TokenRefusal) -> Value) throws(TokenError) -> Value {
    do { return try step() } catch { throw .refused(error) }
  }

  private func key(for token: UserToken) async throws(TokenError) -> TokenKey? {
    switch SignatureKey.Algorithm(rawValue: token.algorithm) {
    case .hs256: secret
    case .rs256, .es256: try await keySet?.key(for: token)
    // Includes `none`.
    case nil: nil
    }
  }
}
