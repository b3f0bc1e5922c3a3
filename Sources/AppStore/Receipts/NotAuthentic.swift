/// The reason why a readable receipt is not proven to be Apple's.
package enum NotAuthentic: Error, Hashable, Sendable {
  /// Made by Xcode's StoreKit testing.
  case xcode
  /// Made by StoreKit testing without a store (environment `LocalTesting`).
  case localTesting
  case noSignature, severalSignatures
  /// The receipt does not carry the certificate that its signature names.
  case signerMissing
  case unsupportedDigest(String)
  case unsupportedSignatureAlgorithm
  /// SHA-1 on a receipt that is newer than Apple's use of it.
  case obsoleteDigest
  case createdInFuture
  /// The leaf lacks Apple's mark for receipts.
  case signerNotForReceipts
  case untrustedRoot, intermediateNotAuthority
  /// The intermediate lacks Apple's mark.
  case intermediateNotAppStore
  /// The chain does not consist of signer, intermediate and root.
  case wrongChainLength
  case notYetValid(Link)
  case expired(Link)
  /// Another fault of the chain, in OpenSSL's words.
  case brokenChain(String)
  case signatureMismatch

  // Signed data of StoreKit 2 only:
  /// `alg` is not ES256.
  case unsupportedAlgorithm(String)
  case criticalExtension
  /// `x5c` does not hold three certificates.
  case wrongCertificateCount(Int)
  case unreadableCertificate
  case signerNotP256
  /// The chain ends in a trusted root for receipts.
  case rootNotElliptic
  case innerOfAnotherApp
  case innerOfAnotherEnvironment

  /// The check itself could not be carried out.
  case uncheckable

  package enum Link: String, Hashable, Sendable, CaseIterable {
    case signer, intermediate, root

    init(position: Int) {
      self =
        switch position {
        case 0: .signer
        case 1: .intermediate
        default: .root
        }
    }
  }
}

extension NotAuthentic: CustomStringConvertible {
  /// A sentence for the sender. It quotes nothing of the receipt.
  package var description: String {
    switch self {
    case .xcode: "The receipt was made by Xcode's StoreKit testing, not by the App Store."
    case .localTesting: "The transaction was made by StoreKit testing on a developer's machine, not by the App Store."
    case .noSignature: "The receipt is not signed."
    case .severalSignatures: "The receipt has more than one signature; Apple's have exactly one."
    case .signerMissing: "The receipt does not carry the certificate that its signature names."
    case .unsupportedDigest(let name):
      "The signature uses the digest \(name); Apple uses SHA-256, and SHA-1 before 2025."
    case .unsupportedSignatureAlgorithm: "The signature is not of the kind that Apple uses (RSA with PKCS#1 v1.5)."
    case .obsoleteDigest: "The signature uses SHA-1, which Apple has not used since 24 January 2025."
    case .createdInFuture: "The receipt claims to have been created in the future."
    case .signerNotForReceipts: "The signing certificate lacks Apple's mark for receipts."
    case .untrustedRoot: "The certificates do not lead to a trusted Apple root."
    case .intermediateNotAuthority: "The certificate above the signer may not issue certificates."
    case .intermediateNotAppStore: "The certificate above the signer lacks Apple's mark for its intermediates."
    case .wrongChainLength: "The chain does not consist of signer, intermediate and root."
    case .notYetValid(let link): "The \(link.rawValue) certificate was not yet valid when the receipt was created."
    case .expired(let link): "The \(link.rawValue) certificate had expired when the receipt was created."
    case .brokenChain(let words): "The chain of certificates is broken: \(words)."
    case .signatureMismatch: "The signature does not fit the content: the receipt was changed after it was signed."
    case .unsupportedAlgorithm(let name): "The algorithm of the signature is \(name); Apple signs with ES256 only."
    case .criticalExtension: "The header demands an extension (crit); Apple's demand none."
    case .wrongCertificateCount(let count):
      "The header carries \(count) certificates; Apple's carries exactly three: signer, intermediate and root."
    case .unreadableCertificate: "A certificate in the header cannot be read."
    case .signerNotP256: "The signing certificate's key is not on the curve P-256, which ES256 needs."
    case .rootNotElliptic:
      "The certificates lead to a root with an RSA key; Apple signs this kind of data under its elliptic-curve root only."
    case .innerOfAnotherApp: "The signed content of the notification is of another app than the notification."
    case .innerOfAnotherEnvironment:
      "The signed content of the notification is of another environment than the notification."
    case .uncheckable: "The signature could not be checked."
    }
  }
}
