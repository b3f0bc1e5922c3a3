package import Entitlements

package import struct FoundationEssentials.Date

/// Why there is no user for a token.
package enum TokenError: Error, Hashable, Sendable {
  /// The token is none of a user's.
  case refused(TokenRefusal)
  /// Whether it is one cannot be told, as its issuer's keys could not be fetched: no fault of the caller's.
  case keysUnavailable
}

/// Finds out which user presents a token: takes it apart, finds the key, verifies the signature, weighs the claims.
package struct UserTokenVerifier: Sendable {
  /// For HS256; `nil` where no secret is configured.
  package var secret: TokenKey?
  /// For RS256 and ES256; `nil` where no URL is configured.
  package var keySet: RemoteKeySet?
  package var rules: TokenRules
  /// The machine's clock: a token is dated by its issuer, and Apple's clock has no say in it.
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

  package func user(presenting text: String) async throws(TokenError) -> UserID {
    let token = try refusing { () throws(TokenRefusal) in try UserToken(text) }
    guard let key = try await key(for: token) else { throw .refused(.algorithm) }
    return try refusing { () throws(TokenRefusal) in
      try verified.verify(token, by: key) { () throws(TokenRefusal) in try rules.user(of: token.claims(), at: now()) }
    }
  }

  private func refusing<Value>(_ step: () throws(TokenRefusal) -> Value) throws(TokenError) -> Value {
    do { return try step() } catch { throw .refused(error) }
  }

  private func key(for token: UserToken) async throws(TokenError) -> TokenKey? {
    switch SignatureKey.Algorithm(rawValue: token.algorithm) {
    case .hs256: secret
    case .rs256, .es256: try await keySet?.key(for: token)
    // `none` among them.
    case nil: nil
    }
  }
}
