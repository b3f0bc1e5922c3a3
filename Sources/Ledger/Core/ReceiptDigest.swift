import Cryptography

/// SHA-256 of a receipt's bytes, or of a signed transaction's text: the key of the stored receipt and its ID in the history.
struct ReceiptDigest: Hashable, Sendable {
  let bytes: [UInt8]

  /// A stored digest.
  init(bytes: [UInt8]) { self.bytes = bytes }

  /// - Parameter base64: a receipt as it is kept.
  init(ofReceipt base64: String) {
    bytes = SHA256Digest(of: Base64.bytes(of: base64) ?? Array(base64.utf8)).bytes
  }

  /// The digest of any other text.
  init(of text: String) { bytes = SHA256Digest(of: text.utf8).bytes }
}
