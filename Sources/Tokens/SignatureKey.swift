private import Crypto
private import JWTKit

/// A trusted key for token signatures, with its one algorithm. This type contains all use of jwt-kit here.
///
/// The key determines the algorithm, never the token: a token that names HS256 would otherwise be verified with a
/// public key as the secret (RFC 8725, section 2.1).
package struct SignatureKey: Sendable {
  package enum Algorithm: String, Hashable, Sendable {
    case hs256 = "HS256"
    case rs256 = "RS256"
    case es256 = "ES256"
  }

  /// An invalid or weak key: a short secret, RSA of less than 2048 bits, a point that is not on the curve.
  package enum Invalid: Error, Hashable, Sendable {
    case invalid
  }

  package let algorithm: Algorithm
  private let verifier: any JWTAlgorithm

  /// A secret shared with the tokens' issuer, for HS256.
  ///
  /// A secret shorter than the hash is refused (RFC 7518, section 3.2).
  package init(secret: String) async throws(Invalid) {
    guard secret.utf8.count >= 32 else { throw .invalid }
    try await self.init(.hs256) { await $0.add(hmac: HMACKey(from: secret), digestAlgorithm: .sha256) }
  }

  /// A public RSA key, for RS256; both numbers in base64url.
  package init(modulus: String, exponent: String) async throws(Invalid) {
    try await self.init(.rs256) {
      await $0.add(rsa: try Insecure.RSA.PublicKey(modulus: modulus, exponent: exponent), digestAlgorithm: .sha256)
    }
  }

  /// A point on P-256, for ES256; both numbers in base64url.
  package init(x: String, y: String) async throws(Invalid) {
    try await self.init(.es256) { await $0.add(ecdsa: try ES256PublicKey(parameters: (x, y))) }
  }

  private init(
    _ algorithm: Algorithm, _ add: (JWTKeyCollection) async throws -> JWTKeyCollection
  ) async throws(Invalid) {
    do { verifier = try await add(JWTKeyCollection()).getKey() } catch { throw .invalid }
    // All else relies on the collection returning the key that was added.
    guard verifier.name == algorithm.rawValue else { throw .invalid }
    self.algorithm = algorithm
  }

  /// Whether this key made the signature. A malformed one, such as one of the wrong length, gives `false`.
  package func hasMade(_ signature: [UInt8], over bytes: [UInt8]) -> Bool {
    (try? verifier.verify(signature, signs: bytes)) == true
  }
}
