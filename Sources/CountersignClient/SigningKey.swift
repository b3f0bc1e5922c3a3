import Foundation

#if canImport(CryptoKit)
  import CryptoKit
#endif

/// A public key of the service, for ES256: a member of `keys` in its `/.well-known/jwks.json`.
public struct SigningKey: Codable, Hashable, Sendable {
  /// The name of the key, its RFC 7638 thumbprint.
  public var kid: String
  /// The coordinates of the point, 32 bytes each, in base64url as they stand in the JSON.
  public var x: String
  public var y: String

  public init(kid: String, x: String, y: String) {
    self.kid = kid
    self.x = x
    self.y = y
  }

  /// The uncompressed point without its first byte: 64 bytes, `x` and then `y`.
  public var rawRepresentation: Data? {
    guard let x = Data(base64URL: x), let y = Data(base64URL: y), x.count == 32, y.count == 32 else { return nil }
    return x + y
  }
}

/// Checks an ES256 signature: 64 bytes, `r` and then `s`, over the SHA-256 of `message`.
public typealias SignatureVerifier = @Sendable (_ signature: Data, _ message: Data, _ key: SigningKey) -> Bool

#if canImport(CryptoKit)
  /// The verifier of Apple's systems.
  let systemVerifier: SignatureVerifier? = { signature, message, key in
    guard let raw = key.rawRepresentation, let key = try? P256.Signing.PublicKey(rawRepresentation: raw),
      let signature = try? P256.Signing.ECDSASignature(rawRepresentation: signature)
    else { return false }
    return key.isValidSignature(signature, for: message)
  }
#else
  let systemVerifier: SignatureVerifier? = nil
#endif

struct KeySet: Codable {
  var keys: [SigningKey]

  /// The keys of a set that this library can use; another kind of key beside them is left out.
  static func parse(_ json: Data) -> [SigningKey]? {
    struct Lenient: Decodable {
      var key: SigningKey?
      init(from decoder: any Decoder) { key = try? SigningKey(from: decoder) }
    }
    struct Document: Decodable { var keys: [Lenient] }
    guard let document = try? JSONDecoder().decode(Document.self, from: json) else { return nil }
    return document.keys.prefix(16).compactMap(\.key)
  }
}

extension Data {
  init?(base64URL text: some StringProtocol) {
    guard !text.utf8.contains(where: { $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: "/") }) else { return nil }
    var base64 = text.replacingOccurrences(of: "-", with: "+").replacingOccurrences(of: "_", with: "/")
    base64 += String(repeating: "=", count: (4 - base64.utf8.count % 4) % 4)
    self.init(base64Encoded: base64)
  }

  var base64URL: String {
    base64EncodedString().replacingOccurrences(of: "+", with: "-").replacingOccurrences(of: "/", with: "_")
      .replacingOccurrences(of: "=", with: "")
  }
}
