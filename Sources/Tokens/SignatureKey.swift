import Cryptography
import JSON

/// A trusted key for token signatures, with its one algorithm.
///
/// The key determines the algorithm, never the token: a token that names HS256 would otherwise be verified with a
/// public key as the secret (RFC 8725, section 2.1).
package struct SignatureKey: Sendable {
  /// The signature algorithms that a token may name (RFC 7518, section 3.1).
  package enum Algorithm: String, Hashable, Sendable {
    case hs256 = "HS256"
    case rs256 = "RS256"
    case es256 = "ES256"
  }

  /// An invalid or weak key: a short secret, RSA of less than 2048 bits, a point that is not on the curve.
  package enum Invalid: Error, Hashable, Sendable {
    case invalid
  }

  private enum Key: Sendable {
    case hs256(HMACKey)
    case rs256(RSAPublicKey)
    case es256(ES256PublicKey)
  }

  private let key: Key

  package var algorithm: Algorithm {
    switch key {
    case .hs256: .hs256
    case .rs256: .rs256
    case .es256: .es256
    }
  }

  /// A secret shared with the tokens' issuer, for HS256.
  ///
  /// A secret shorter than the hash is refused (RFC 7518, section 3.2).
  package init(secret: String) throws(Invalid) {
    guard secret.utf8.count >= SHA256Digest.count else { throw .invalid }
    key = .hs256(HMACKey(Array(secret.utf8)))
  }

  /// A public RSA key, for RS256; both numbers in base64url.
  package init(modulus: String, exponent: String) throws(Invalid) {
    guard
      let key = RSAPublicKey(
        modulus: try Self.number(modulus), exponent: try Self.number(exponent), digest: .sha256)
    else { throw .invalid }
    self.key = .rs256(key)
  }

  /// A point on P-256, for ES256; both numbers in base64url.
  package init(x: String, y: String) throws(Invalid) {
    guard let key = ES256PublicKey(x: try Self.number(x), y: try Self.number(y)) else { throw .invalid }
    self.key = .es256(key)
  }

  /// A number of a JWK, big-endian. Padding is tolerated: some issuers leave it, although RFC 7518 forbids it.
  private static func number(_ text: String) throws(Invalid) -> [UInt8] {
    var digits = text.utf8[...]
    while digits.last == UInt8(ascii: "=") { digits.removeLast() }
    guard !digits.isEmpty, let number = Base64URL.decode(digits) else { throw .invalid }
    return number
  }

  /// Whether this key made the signature. A malformed one, such as one of the wrong length, gives `false`.
  package func hasMade(_ signature: [UInt8], over bytes: [UInt8]) -> Bool {
    switch key {
    case .hs256(let key): key.hasMade(signature, over: bytes)
    case .rs256(let key): key.hasMade(signature[...], over: bytes[...])
    case .es256(let key): key.hasMade(signature, over: bytes)
    }
  }
}
