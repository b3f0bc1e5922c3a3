import Cryptography

/// SHA-256 of a receipt's base64 text: the key of the stored receipt and its ID in the history.
struct ReceiptDigest: Hashable, Sendable {
  let bytes: [UInt8]

  /// A stored digest.
  init(bytes: [UInt8]) { self.bytes = bytes }

  init(of base64: String) { bytes = SHA256Digest(of: base64.utf8).bytes }
}
