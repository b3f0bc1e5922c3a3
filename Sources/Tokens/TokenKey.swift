import Crypto
package import HTTPTransport

/// A trusted key, and the ID by which tokens name it.
package struct TokenKey: Sendable {
  /// `kid`. Of a shared secret there is none: its tokens may name any or none, as Supabase's legacy tokens do.
  let id: String?
  /// Which key it is, whatever ID it goes by; `nil` of a shared secret.
  let thumbprint: SHA256Digest?
  private let key: SignatureKey

  var algorithm: SignatureKey.Algorithm { key.algorithm }

  /// A secret that whoever makes the tokens has too.
  package init(secret: Secret) async throws(SignatureKey.Invalid) {
    id = nil
    thumbprint = nil
    key = try await SignatureKey(secret: secret.exposed)
  }

  package init(_ published: PublishedKey) async throws(SignatureKey.Invalid) {
    id = published.id
    thumbprint = published.material.thumbprint
    key =
      switch published.material {
      case .rsa(let modulus, let exponent): try await SignatureKey(modulus: modulus, exponent: exponent)
      case .p256(let x, let y): try await SignatureKey(x: x, y: y)
      }
  }

  /// Whether a token is signed by this key, by the algorithm that the key is for.
  func signed(_ token: UserToken) -> Bool {
    token.algorithm == algorithm.rawValue && key.hasMade(token.signature, over: token.signed)
  }
}
