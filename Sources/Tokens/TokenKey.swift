import Cryptography
package import HTTPTransport

package struct TokenKey: Sendable {
  /// `kid`. `nil` for a shared secret: its tokens may have any or none, as Supabase's legacy tokens do.
  let id: String?
  /// The key's identity, independent of its ID; `nil` for a shared secret.
  let thumbprint: SHA256Digest?
  private let key: SignatureKey

  var algorithm: SignatureKey.Algorithm { key.algorithm }

  /// A secret shared with the tokens' issuer.
  package init(secret: Secret) throws(SignatureKey.Invalid) {
    id = nil
    thumbprint = nil
    key = try SignatureKey(secret: secret.exposed)
  }

  package init(_ published: PublishedKey) throws(SignatureKey.Invalid) {
    id = published.id
    thumbprint = published.material.thumbprint
    key =
      switch published.material {
      case .rsa(let modulus, let exponent): try SignatureKey(modulus: modulus, exponent: exponent)
      case .p256(let x, let y): try SignatureKey(x: x, y: y)
      }
  }

  /// Whether this key signed a token, with the key's own algorithm.
  func signed(_ token: UserToken) -> Bool {
    token.algorithm == algorithm.rawValue && key.hasMade(token.signature, over: token.signed)
  }
}
