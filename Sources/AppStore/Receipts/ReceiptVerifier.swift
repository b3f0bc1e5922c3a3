package import Entitlements
package import struct FoundationEssentials.Date

/// An app receipt that Apple signed. Only `ReceiptVerifier` makes one, so a value of this type is the proof.
///
/// It proves what was true when it was signed (`receipt.createdAt`); of refunds and renewals after that it knows nothing.
package struct VerifiedAppReceipt: Hashable, Sendable {
  package let receipt: AppReceipt
  package let signer: ReceiptSigner

  fileprivate init(receipt: AppReceipt, signer: ReceiptSigner) {
    self.receipt = receipt
    self.signer = signer
  }

  /// What the rules judge when Apple itself cannot be asked; `nil` for a receipt type that names no store.
  ///
  /// The evidence is as old as the signature, however late it is looked at.
  package func history(judgedAt moment: Date) -> PurchaseHistory? {
    receipt.environment.map { environment in
      PurchaseHistory(
        environment: environment, source: .signature, evidenceTime: receipt.createdAt, judgedAt: moment,
        purchases: receipt.purchases)
    }
  }
}

/// Tells whether Apple signed an app receipt, without asking Apple.
///
/// https://developer.apple.com/documentation/appstorereceipts/validating-receipts-on-the-device
///
/// The certificates are judged at the receipt's creation date, which is read from content that is not proven yet. That
/// is no circle: the signature that is then checked covers this date. What remains is that a leaf whose key leaks after
/// its expiry could sign receipts of the past.
package struct ReceiptVerifier: Sendable {
  /// Apple's mark on certificates that sign receipts.
  static let leafMarker = "1.2.840.113635.100.6.11.1"
  /// Apple's mark on its Worldwide Developer Relations intermediates. Without it, and the one above, whatever holds any
  /// Apple developer certificate could sign receipts.
  static let intermediateMarker = "1.2.840.113635.100.6.2.1"
  /// How far a creation date may lie ahead of our clock, in seconds.
  static let skewAllowance: Double = 300
  /// 2025-01-25T00:00:00Z. Apple moved everything to SHA-256 by 24 January 2025; that day still counts as before.
  ///
  /// https://developer.apple.com/documentation/technotes/tn3138-handling-app-store-receipt-signing-certificate-changes
  static let sha1End = Date(timeIntervalSince1970: 1_737_763_200)

  private let roots: TrustedRoots

  package init(roots: TrustedRoots = .apple) { self.roots = roots }

  /// - Parameter now: our clock; it only refuses receipts from the future.
  package func verify(_ receipt: AppReceipt, now: Date) throws(NotAuthentic) -> VerifiedAppReceipt {
    guard !receipt.isFromXcode else { throw .xcode }
    guard let message = try? SignedMessage(receipt.encoded) else { throw .uncheckable }
    guard message.signatureCount <= 1 else { throw .severalSignatures }
    guard let signature = message.firstSignature else { throw .noSignature }
    guard let signer = signature.certificate else { throw .signerMissing }
    try checkAlgorithms(of: signature, by: signer, createdAt: receipt.createdAt)
    guard receipt.createdAt.timeIntervalSince(now) <= Self.skewAllowance else { throw .createdInFuture }
    _ = try roots.appleChain(from: signer, through: message.certificates, at: receipt.createdAt)
    guard message.isIntact(signature, by: signer) else { throw .signatureMismatch }
    return VerifiedAppReceipt(receipt: receipt, signer: ReceiptSigner(signer, digest: signature.digest))
  }

  private func checkAlgorithms(
    of signature: SignedMessage.Signature, by signer: Certificate, createdAt: Date
  ) throws(NotAuthentic) {
    switch signature.digest {
    case "sha256": break
    case "sha1":
      guard createdAt < Self.sha1End else { throw .obsoleteDigest }
    default: throw .unsupportedDigest(signature.digest)
    }
    guard signature.isPlainRSA, signer.hasRSAKey else { throw .unsupportedSignatureAlgorithm }
  }
}
