import Cryptography

/// The signature of an iOS 6-style receipt: the blob behind the key `signature`.
///
///     version (1 octet) | RSA signature (128 octets in version 2, 256 in version 3) | length (4, big-endian) | leaf in DER
///
/// The signature, with SHA-1, covers the version octet and then the decoded `purchase-info`.
struct TransactionSignature {
  let signer: ReceiptSigner?
  let matchesEmbeddedCertificate: Bool

  /// - Throws: when a blob of a known version is cut short or carries no readable certificate. A version that is not
  ///   known is left to Apple.
  init(_ blob: [UInt8], over information: [UInt8]) throws(UndecodableReceipt) {
    let signatureLength: Int
    switch blob.first {
    case 2: signatureLength = 128
    case 3: signatureLength = 256
    default:
      signer = nil
      matchesEmbeddedCertificate = false
      return
    }
    let signature = blob.dropFirst().prefix(signatureLength)
    let tail = blob.dropFirst(1 + signatureLength)
    let length = tail.prefix(4).reduce(0) { $0 << 8 | Int($1) }
    let der = tail.dropFirst(4)
    guard signature.count == signatureLength, tail.count >= 4, der.count == length, let leaf = Certificate(der: der)
    else { throw .malformed("its signature is cut short or carries no certificate") }
    signer = ReceiptSigner(leaf, digest: "sha1")
    let key = RSAPublicKey(of: leaf, digest: .sha1)
    matchesEmbeddedCertificate = key?.hasMade(signature, over: blob.prefix(1) + information) ?? false
  }
}
