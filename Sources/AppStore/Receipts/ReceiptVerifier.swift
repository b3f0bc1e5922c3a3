import Cryptography
package import Entitlements
import Resilience
package import struct FoundationEssentials.Date

/// An app receipt that Apple signed. Only `ReceiptVerifier` makes one, so a value of this type is the proof.
///
/// It proves the state at its signature (`receipt.createdAt`), without later refunds and renewals.
package struct VerifiedAppReceipt: Hashable, Sendable {
  package let receipt: AppReceipt
  package let signer: ReceiptSigner

  fileprivate init(receipt: AppReceipt, signer: ReceiptSigner) {
    self.receipt = receipt
    self.signer = signer
  }

  /// The evidence for the rules when Apple itself cannot be asked; `nil` for a receipt type that names no store.
  ///
  /// The evidence is as old as the signature, however late it is looked at.
  package func history(evaluatedAt moment: Date) -> PurchaseHistory? {
    receipt.environment.map { environment in
      var history = PurchaseHistory(
        environment: environment, source: .signature, evidenceTime: receipt.createdAt, evaluatedAt: moment,
        purchases: receipt.purchases)
      history.originalPurchase = receipt.originalPurchase
      return history
    }
  }
}

/// The offline check of Apple's signature on an app receipt.
///
/// https://developer.apple.com/documentation/appstorereceipts/validating-receipts-on-the-device
///
/// The certificates are judged at the receipt's creation date, which is read from content that is not proven yet. That
/// is no circle: the signature that is then checked covers this date. One risk remains: a leaf whose key leaks after
/// its expiry could sign receipts of the past.
package struct ReceiptVerifier: Sendable {
  /// Apple's mark on certificates that sign receipts.
  static let leafMarker = "1.2.840.113635.100.6.11.1"
  /// Apple's mark on its Worldwide Developer Relations intermediates. Without it, and the one above, the holder of any
  /// Apple developer certificate could sign receipts.
  static let intermediateMarker = "1.2.840.113635.100.6.2.1"
  /// How far a creation date may lie ahead of our clock, in seconds.
  static let skewAllowance: Double = 300
  /// 2025-01-25T00:00:00Z. Apple moved everything to SHA-256 by 24 January 2025; that day still counts as before.
  ///
  /// https://developer.apple.com/documentation/technotes/tn3138-handling-app-store-receipt-signing-certificate-changes
  static let sha1End = Date(timeIntervalSince1970: 1_737_763_200)

  let chains: ReceiptChains
  private let roots: TrustedRoots
  private let knownSigners: KnownSigners

  /// - Parameter cachedChains: how many chains of certificates that verified are remembered.
  package init(roots: TrustedRoots = .apple, cachedChains: Int = 64) {
    self.init(roots: roots, cachedChains: cachedChains, knownSigners: AppReceipt.knownSigners)
  }

  /// - Parameter knownSigners: remembers the signers that verify, for later receipts.
  init(roots: TrustedRoots, cachedChains: Int = 64, knownSigners: KnownSigners) {
    chains = ReceiptChains(limit: cachedChains)
    self.roots = roots
    self.knownSigners = knownSigners
  }

  /// - Parameter now: our clock; it only refuses receipts from the future.
  package func verify(_ receipt: AppReceipt, now: Date) throws(NotAuthentic) -> VerifiedAppReceipt {
    guard !receipt.isFromXcode else { throw .xcode }
    let framed = FramedReceipt(receipt.encoded)
    if let framed, let signer = chains.signer(of: framed.frame, at: receipt.createdAt) {
      return try verify(receipt, framed, by: signer, now: now)
    }
    return try verify(receipt, framed, now: now)
  }

  /// Whether a receipt of the same frame was verified, so that little but its own signature is left to check.
  package func knowsFrame(of receipt: AppReceipt) -> Bool {
    guard !receipt.isFromXcode, let framed = FramedReceipt(receipt.encoded) else { return false }
    return chains.signer(of: framed.frame, at: receipt.createdAt) != nil
  }

  /// By a chain that another receipt of the same frame verified with. Checks of the frame alone (one signature, its
  /// signer and algorithms, the marks, the root) passed then; checks of the receipt are made here, in the same order.
  private func verify(
    _ receipt: AppReceipt, _ framed: FramedReceipt, by signer: ReceiptChains.Signer, now: Date
  ) throws(NotAuthentic) -> VerifiedAppReceipt {
    try checkDigest(signer.certificate.digest, createdAt: receipt.createdAt)
    try checkAge(receipt.createdAt, now: now)
    guard signer.key.hasMade(framed.signature, over: framed.content) else { throw .signatureMismatch }
    return VerifiedAppReceipt(receipt: receipt, signer: signer.certificate)
  }

  /// - Parameter framed: the receipt's parts, where it has the usual form.
  private func verify(
    _ receipt: AppReceipt, _ framed: FramedReceipt?, now: Date
  ) throws(NotAuthentic) -> VerifiedAppReceipt {
    guard let message = try? SignedMessage(receipt.encoded) else { throw .uncheckable }
    let (signer, chain) = try check(message, createdAt: receipt.createdAt, now: now)
    if let framed { remember(signer, chain, of: framed, message) }
    return VerifiedAppReceipt(receipt: receipt, signer: signer)
  }

  /// Whether Apple signed a receipt that cannot be read here: then the fault is not its sender's.
  ///
  /// - Parameter text: base64 of the receipt.
  package func hasSigned(unreadable text: String, now: Date) -> Bool {
    let digits = ReceiptText.withoutWhitespace(ReceiptText.trimmed(Array(text.utf8)))
    guard let (bytes, _) = try? ReceiptText.base64(digits), let message = try? SignedMessage(bytes) else {
      return false
    }
    let createdAt = try? ReceiptAttributes(payload: message.content[...]).date(12)
    return (try? check(message, createdAt: (createdAt ?? nil) ?? now, now: now)) != nil
  }

  /// Checks the signature, whatever it covers, and the chain of its certificates at `createdAt`.
  private func check(
    _ message: SignedMessage, createdAt: Date, now: Date
  ) throws(NotAuthentic) -> (ReceiptSigner, chain: [Certificate]) {
    guard message.signatureCount <= 1 else { throw .severalSignatures }
    guard let signature = message.firstSignature else { throw .noSignature }
    guard let signer = signature.certificate else { throw .signerMissing }
    try checkDigest(signature.digest, createdAt: createdAt)
    guard signature.isPlainRSA, signer.hasRSAKey else { throw .unsupportedSignatureAlgorithm }
    try checkAge(createdAt, now: now)
    let chain = try roots.appleChain(from: signer, through: message.certificates, at: createdAt)
    guard message.isIntact(signature, by: signer) else { throw .signatureMismatch }
    return (ReceiptSigner(signer, digest: signature.digest), chain)
  }

  private func remember(
    _ signer: ReceiptSigner, _ chain: [Certificate], of framed: FramedReceipt, _ message: SignedMessage
  ) {
    guard framed.frame.count <= ReceiptFrame.rememberedLimit else { return }
    let trusted = roots.certificates.compactMap { Certificate(der: $0) }
    chains.remember(signer, as: framed.frame, chain: chain, candidates: message.certificates + trusted)
    knownSigners.insert(signer, for: framed.frame.detached)
  }

  private func checkDigest(_ name: String, createdAt: Date) throws(NotAuthentic) {
    switch name {
    case "sha256": break
    case "sha1":
      guard createdAt < Self.sha1End else { throw .obsoleteDigest }
    default: throw .unsupportedDigest(name)
    }
  }

  private func checkAge(_ createdAt: Date, now: Date) throws(NotAuthentic) {
    guard createdAt.timeIntervalSince(now) <= Self.skewAllowance else { throw .createdInFuture }
  }
}
