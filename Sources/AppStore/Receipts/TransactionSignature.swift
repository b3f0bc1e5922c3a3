import COpenSSL

/// The signature of an iOS 6-style receipt: the blob behind the key `signature`.
///
///     version (1 octet) | RSA signature (128 octets in version 2, 256 in version 3) | length (4, big-endian) | leaf in DER
///
/// What is signed, with SHA-1, is the version octet and then the decoded `purchase-info`.
struct TransactionSignature {
  let version: Int?
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
      version = nil
      signer = nil
      matchesEmbeddedCertificate = false
      return
    }
    let signature = blob.dropFirst().prefix(signatureLength)
    let tail = blob.dropFirst(1 + signatureLength)
    let length = tail.prefix(4).reduce(0) { $0 << 8 | Int($1) }
    let der = tail.dropFirst(4)
    guard signature.count == signatureLength, tail.count >= 4, der.count == length, let leaf = Certificate(der: der)
    else {
      throw .malformed("its signature is cut short or carries no certificate")
    }
    version = blob.first.map { Int($0) }
    signer = ReceiptSigner(leaf, digest: "sha1")
    matchesEmbeddedCertificate = Self.verify(Array(signature), over: blob.prefix(1) + information, by: leaf)
  }

  private static func verify(_ signature: [UInt8], over signed: [UInt8], by leaf: Certificate) -> Bool {
    defer { ERR_clear_error() }
    guard leaf.hasRSAKey, let key = X509_get0_pubkey(leaf.pointer), let context = EVP_MD_CTX_new() else { return false }
    defer { EVP_MD_CTX_free(context) }
    guard EVP_DigestVerifyInit(context, nil, EVP_sha1(), nil, key) == 1 else { return false }
    return EVP_DigestVerify(context, signature, signature.count, signed, signed.count) == 1
  }
}
