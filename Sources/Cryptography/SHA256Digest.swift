/// A SHA-256 digest: 32 octets.
package struct SHA256Digest: Hashable, Sendable {
  package static let count = 32

  /// The octets in memory order, without an array: some tables hold ten thousand digests.
  private let words: SIMD4<UInt64>

  package init(of bytes: some Sequence<UInt8>) {
    self = bytes.withContiguousStorageIfAvailable { Self(buffer: $0) } ?? Self(of: Array(bytes))
  }

  private init(buffer: UnsafeBufferPointer<UInt8>) {
    words = DigestAlgorithm.sha256.withDigest(of: buffer) { digest in
      // A failure cannot depend on the bytes: libcrypto is out of memory or has lost its provider. A digest that names
      // the wrong bytes would be worse than a stop.
      guard let digest, digest.count == Self.count else { preconditionFailure("libcrypto cannot compute SHA-256") }
      return UnsafeRawBufferPointer(digest).loadUnaligned(as: SIMD4<UInt64>.self)
    }
  }

  package var bytes: [UInt8] { withUnsafeBytes(of: words) { Array($0) } }

  /// 64 lower-case hexadecimal digits.
  package var hexadecimal: String { withUnsafeBytes(of: words) { Cryptography.hexadecimal($0) } }
}

/// The octets of hexadecimal digits in either case.
///
/// - Returns: `nil` for an odd number of them, and for any other character.
package func octets(ofHexadecimal text: String) -> [UInt8]? {
  let values = text.utf8.compactMap { Character(Unicode.Scalar($0)).hexDigitValue }
  guard values.count == text.utf8.count, values.count.isMultiple(of: 2) else { return nil }
  return stride(from: 0, to: values.count, by: 2).map { UInt8(values[$0] << 4 | values[$0 + 1]) }
}

/// Lower-case hexadecimal digits, two for each octet.
package func hexadecimal(_ bytes: some Collection<UInt8>) -> String {
  func digit(_ value: UInt8) -> UInt8 { value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10 }
  return String(unsafeUninitializedCapacity: 2 * bytes.count) { text in
    var position = 0
    for byte in bytes {
      // A collection has as many elements as it counts; the buffer checks it in debug builds only.
      guard position + 1 < text.count else { break }
      text[position] = digit(byte >> 4)
      text[position + 1] = digit(byte & 0x0F)
      position += 2
    }
    return position
  }
}
