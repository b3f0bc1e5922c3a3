import Crypto

/// SHA-256 of a receipt's base64 text: the key of the stored receipt and its ID in the history.
struct ReceiptDigest: Hashable, Sendable {
  let bytes: [UInt8]

  /// A stored digest.
  init(bytes: [UInt8]) { self.bytes = bytes }

  init(of base64: String) {
    var hash = SHA256()
    var text = base64
    text.withUTF8 { hash.update(bufferPointer: UnsafeRawBufferPointer($0)) }
    bytes = Array(hash.finalize())
  }
}
