import Crypto

/// SHA-256 of a receipt's base64 text: the name under which it is kept and mentioned in the history.
struct ReceiptDigest: Hashable, Sendable {
  let bytes: [UInt8]

  /// A digest as it was kept.
  init(bytes: [UInt8]) { self.bytes = bytes }

  init(of base64: String) {
    var hash = SHA256()
    var text = base64
    text.withUTF8 { hash.update(bufferPointer: UnsafeRawBufferPointer($0)) }
    bytes = Array(hash.finalize())
  }
}
