package import Tokens

/// The means by which callers prove who they are, and the keys that sign what the service says of them.
package struct Credentials: Sendable {
  package var keyring: APIKeyring
  /// `nil` where users cannot call.
  package var tokens: UserTokenVerifier?
  /// `nil`: no key signs tokens, and there are no such routes.
  package var accessTokens: AccessTokenSettings?

  package init(keyring: APIKeyring, tokens: UserTokenVerifier? = nil, accessTokens: AccessTokenSettings? = nil) {
    self.keyring = keyring
    self.tokens = tokens
    self.accessTokens = accessTokens
  }
}

package struct AccessTokenSettings: Sendable {
  package var keyring: AccessTokenKeyring
  /// `iss` and `aud` of the tokens; `nil`: they have none.
  package var issuer: String?
  package var audience: String?

  package init(keyring: AccessTokenKeyring, issuer: String? = nil, audience: String? = nil) {
    self.keyring = keyring
    self.issuer = issuer
    self.audience = audience
  }
}
