import FoundationEssentials

/// Signs JWS as the store does: ES256, with the complete chain in the header (RFC 7515, section 4.1.6).
///
///     {"alg":"ES256","x5c":[leaf, intermediate, root]}   certificates in the standard alphabet of base64
struct SignedDataSigner: Sendable {
  private let key: SigningKey
  private let header: String

  /// - Parameter chain: DER, the leaf first.
  init(key: SigningKey, chain: [[UInt8]]) {
    self.key = key
    let certificates = chain.map { JSON.string(Data($0).base64EncodedString()) }
    header = Self.encode(Array(JSON.object([("alg", "ES256"), ("x5c", .array(certificates))]).text.utf8))
  }

  /// Signatures are randomised: the same payload gives a different text every time.
  func sign(_ payload: JSON) throws -> String {
    let signed = header + "." + Self.encode(Array(payload.text.utf8))
    return signed + "." + Self.encode(try key.signES256(Array(signed.utf8)))
  }

  /// Base64url without padding (RFC 7515, section 2).
  static func encode(_ bytes: [UInt8]) -> String {
    String(Data(bytes).base64EncodedString().prefix { $0 != "=" }.map { $0 == "+" ? "-" : $0 == "/" ? "_" : $0 })
  }

  /// - Returns: nil for anything but base64url without padding.
  static func decode(_ text: Substring) -> [UInt8]? {
    guard text.utf8.allSatisfy({ $0 != UInt8(ascii: "+") && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "=") }) else {
      return nil
    }
    let standard = String(text.map { $0 == "-" ? "+" : $0 == "_" ? "/" : $0 })
    return Data(base64Encoded: standard + String(repeating: "=", count: (4 - standard.utf8.count % 4) % 4)).map(
      Array.init)
  }
}
