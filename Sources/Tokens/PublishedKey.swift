import Cryptography
import JSON

/// A public key as published in a JWK Set (RFC 7517), before it is parsed.
package struct PublishedKey: Hashable, Sendable {
  enum Material: Hashable, Sendable {
    /// `n` and `e`, in base64url.
    case rsa(modulus: String, exponent: String)
    /// `x` and `y`, in base64url, of a point on P-256.
    case p256(x: String, y: String)

    /// SHA-256 of the members that define the key, and of no other (RFC 7638, section 3).
    ///
    /// Meaningless for a key with numbers that are not base64url; it cannot become a `TokenKey`.
    var thumbprint: SHA256Digest {
      let members =
        switch self {
        case .rsa(let modulus, let exponent): #"{"e":"\#(exponent)","kty":"RSA","n":"\#(modulus)"}"#
        case .p256(let x, let y): #"{"crv":"P-256","kty":"EC","x":"\#(x)","y":"\#(y)"}"#
        }
      return SHA256Digest(of: members.utf8)
    }
  }

  let id: String?
  let material: Material

  /// The most keys of a set that are read. Providers publish two or three.
  static let most = 32
  /// Characters of one number: RSA of 8192 bits has 1366.
  private static let longestNumber = 1_400

  /// Every key of a set that can verify RS256 or ES256; others are skipped, as new kinds may appear at any time (RFC
  /// 7517, section 5).
  static func all(in set: JSONValue) throws(JSONError) -> [PublishedKey] {
    guard let keys = set["keys"] else { throw set.missing("keys") }
    guard keys.isArray else { throw set.unreadable("keys") }
    return keys.elements.prefix(most).compactMap(PublishedKey.init)
  }

  private init?(_ key: JSONValue) {
    // A private or shared key among public ones was published by mistake, and is no longer secret.
    guard key.isObject, key["d"] == nil, key["k"] == nil, Self.isForSignatures(key) else { return nil }
    func number(_ name: String) -> String? {
      key[name]?.string.flatMap { (1...Self.longestNumber).contains($0.utf8.count) ? $0 : nil }
    }
    let algorithm = key["alg"]?.string
    switch key["kty"]?.string {
    case "RSA":
      guard algorithm ?? "RS256" == "RS256", let modulus = number("n"), let exponent = number("e") else { return nil }
      material = .rsa(modulus: modulus, exponent: exponent)
    case "EC":
      guard algorithm ?? "ES256" == "ES256", key["crv"]?.string == "P-256", let x = number("x"), let y = number("y")
      else { return nil }
      material = .p256(x: x, y: y)
    default: return nil
    }
    id = key["kid"]?.string
  }

  private static func isForSignatures(_ key: JSONValue) -> Bool {
    if let use = key["use"], use.string != "sig" { return false }
    guard let operations = key["key_ops"] else { return true }
    return operations.elements.contains { $0.string == "verify" }
  }
}
