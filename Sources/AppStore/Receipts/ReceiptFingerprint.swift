package import Cryptography

/// The SHA-256 of a receipt's bytes, which names the receipt and reveals nothing of it.
package struct ReceiptFingerprint: Hashable, Sendable, CustomStringConvertible {
  package let digest: SHA256Digest
  /// 64 lower-case hexadecimal digits.
  package var hex: String { digest.hexadecimal }
  /// The first 12 digits, enough to find a receipt in the log.
  package var short: String { String(hex.prefix(12)) }
  package var description: String { short }

  package init(of bytes: [UInt8]) { digest = SHA256Digest(of: bytes) }
}
