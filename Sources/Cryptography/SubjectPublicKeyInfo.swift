import COpenSSL

/// A public key as certificates write it, in DER (SubjectPublicKeyInfo, RFC 5280, section 4.1.2.7).
///
///     SEQUENCE { SEQUENCE { algorithm OBJECT IDENTIFIER, parameters }, key BIT STRING }
///
/// OpenSSL takes the numbers of a key in `OSSL_PARAM` too, but as pointers that have to outlive several calls.
struct SubjectPublicKeyInfo {
  private let der: [UInt8]

  /// The key is `SEQUENCE { modulus INTEGER, exponent INTEGER }` (RFC 3279, section 2.3.1).
  ///
  /// - Parameters:
  ///   - modulus: big-endian, without leading zeros.
  ///   - exponent: likewise.
  static func rsa(modulus: [UInt8], exponent: [UInt8]) -> SubjectPublicKeyInfo {
    // rsaEncryption (1.2.840.113549.1.1.1) and NULL.
    let algorithm: [UInt8] = [0x06, 0x09, 0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01, 0x05, 0x00]
    return SubjectPublicKeyInfo(
      algorithm: algorithm,
      key: value(.sequence, value(.integer, positive(modulus)) + value(.integer, positive(exponent))))
  }

  /// The key is the uncompressed point (RFC 5480, section 2.2).
  ///
  /// - Parameters:
  ///   - x: 32 octets, big-endian.
  ///   - y: likewise.
  static func p256(x: [UInt8], y: [UInt8]) -> SubjectPublicKeyInfo {
    // id-ecPublicKey (1.2.840.10045.2.1) and the curve prime256v1 (1.2.840.10045.3.1.7).
    let algorithm: [UInt8] = [
      0x06, 0x07, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x02, 0x01, 0x06, 0x08, 0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x03, 0x01, 0x07,
    ]
    return SubjectPublicKeyInfo(algorithm: algorithm, key: [0x04] + x + y)
  }

  private init(algorithm: [UInt8], key: [UInt8]) {
    // No bit of the last octet is unused.
    der = Self.value(.sequence, Self.value(.sequence, algorithm) + Self.value(.bitString, [0] + key))
  }

  /// - Returns: the key (`EVP_PKEY *`), which the caller frees; `nil` when OpenSSL refuses it, such as a point that is not
  ///   on the curve.
  func read() -> OpaquePointer? {
    let key = der.withUnsafeBufferPointer { octets in
      var cursor = octets.baseAddress
      return d2i_PUBKEY(nil, &cursor, octets.count)
    }
    if key == nil { ERR_clear_error() }
    return key
  }

  private enum Tag: UInt8 {
    case integer = 0x02
    case bitString = 0x03
    case sequence = 0x30
  }

  private static func value(_ tag: Tag, _ content: [UInt8]) -> [UInt8] {
    let count = withUnsafeBytes(of: content.count.bigEndian) { Array($0.drop { $0 == 0 }) }
    let length = content.count < 0x80 ? [UInt8(content.count)] : [0x80 | UInt8(count.count)] + count
    return [tag.rawValue] + length + content
  }

  /// The content of an INTEGER that is not negative.
  private static func positive(_ magnitude: [UInt8]) -> [UInt8] {
    (magnitude.first ?? 0x80) < 0x80 ? magnitude : [0] + magnitude
  }
}
