private import Crypto
private import JWTKit

/// A key that is trusted to sign tokens, for one algorithm; everything that jwt-kit does here is behind this type.
///
/// The key has the algorithm, and the token has no say in it: a token that names HS256 would otherwise be checked with a
/// public key as the secret (RFC 8725, section 2.1).
package struct SignatureKey: Sendable {
  package enum Algorithm: String, Hashable, Sendable {
    case hs256 = "HS256"
    case rs256 = "RS256"
    case es256 = "ES256"
  }

  /// Not a key, or too weak a one: a short secret, RSA of less than 2048 bits, a point that is not on the curve.
  package enum Invalid: Error, Hashable, Sendable {
    case invalid
  }

  package let algorithm: Algorithm
  private let verifier: any JWTAlgorithm

  /// A secret that whoever makes the tokens has too, for HS256.
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
    // That the collection hands out what was put in is what everything else rests on.
    guard verifier.name == algorithm.rawValue else { throw .invalid }
    self.algorithm = algorithm
  }

  /// Whether this key made the signature. One that is none, such as one of the wrong length, is not made by it.
  package func hasMade(_ signature: [UInt8], over bytes: [UInt8]) -> Bool {
    (try? verifier.verify(signature, signs: bytes)) == true
  }
}
