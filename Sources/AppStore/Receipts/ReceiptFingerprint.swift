/// SHA-256 of a receipt's bytes: names a receipt without telling what is in it.
package struct ReceiptFingerprint: Hashable, Sendable, CustomStringConvertible {
  /// 64 lower-case hexadecimal digits.
  package let hex: String
  /// The first 12 digits: enough to find a receipt in the log again.
  package var short: String { String(hex.prefix(12)) }
  package var description: String { short }

  package init(of bytes: [UInt8]) {
    hex = bytes.withUnsafeBufferPointer { bytes in
      Digest.sha256.withHash(of: bytes) { hash in
        // It cannot depend on the bytes: libcrypto fails here only when it is out of memory or has lost its provider,
        // and a fingerprint that names the wrong receipt would be worse than a stop.
        guard let hash, hash.count == 32 else { preconditionFailure("libcrypto cannot compute SHA-256") }
        return hexadecimal(hash)
      }
    }
  }
}

/// Lower-case hexadecimal digits, two for each octet.
func hexadecimal(_ bytes: some Collection<UInt8>) -> String {
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
