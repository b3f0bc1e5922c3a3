import COpenSSL

/// SHA-256 of a receipt's bytes: names a receipt without telling what is in it.
package struct ReceiptFingerprint: Hashable, Sendable, CustomStringConvertible {
  /// 64 lower-case hexadecimal digits.
  package let hex: String
  /// The first 12 digits: enough to find a receipt in the log again.
  package var short: String { String(hex.prefix(12)) }
  package var description: String { short }

  package init(of bytes: [UInt8]) {
    var digest = [UInt8](repeating: 0, count: Int(EVP_MAX_MD_SIZE))
    var length: UInt32 = 0
    let result = EVP_Digest(bytes, bytes.count, &digest, &length, EVP_sha256(), nil)
    // It cannot depend on the bytes: libcrypto fails here only when it is out of memory or has lost its provider, and a
    // fingerprint that names the wrong receipt would be worse than a stop.
    precondition(result == 1 && length == 32, "libcrypto cannot compute SHA-256")
    hex = hexadecimal(digest.prefix(32))
  }
}

/// Lower-case hexadecimal digits, two for each octet.
func hexadecimal(_ bytes: some Sequence<UInt8>) -> String {
  let digits = Array("0123456789abcdef".utf8)
  var text: [UInt8] = []
  for byte in bytes {
    text.append(digits[Int(byte >> 4)])
    text.append(digits[Int(byte & 0x0F)])
  }
  return String(decoding: text, as: UTF8.self)
}
