import struct FoundationEssentials.Date

extension TrustedRoots {
  /// The chain from a signer through Apple's intermediate to one of these roots: three certificates, the first two with
  /// Apple's marks, each valid at `moment`.
  func appleChain(
    from signer: Certificate, through certificates: [Certificate], at moment: Date
  ) throws(NotAuthentic) -> [Certificate] {
    guard signer.hasExtension(ReceiptVerifier.leafMarker) else { throw .signerNotForReceipts }
    let chain: [Certificate]
    do {
      chain = try store.chain(from: signer, through: certificates, at: moment)
    } catch {
      throw NotAuthentic(error)
    }
    guard chain.count == 3 else { throw .wrongChainLength }
    let intermediate = chain[1]
    guard intermediate.isCertificateAuthority else { throw .intermediateNotAuthority }
    guard intermediate.hasExtension(ReceiptVerifier.intermediateMarker) else { throw .intermediateNotAppStore }
    // OpenSSL ends chains in its store only; this holds the promise to the bytes of the root.
    guard self.certificates.contains(chain[2].der) else { throw .untrustedRoot }
    return chain
  }
}

extension NotAuthentic {
  fileprivate init(_ failure: CertificateStore.Failure) {
    self =
      switch failure {
      case .unavailable: .uncheckable
      case .noTrustedRoot: .untrustedRoot
      case .notAuthority: .intermediateNotAuthority
      case .notYetValid(let position): .notYetValid(Link(position: position))
      case .expired(let position): .expired(Link(position: position))
      case .tooLong: .wrongChainLength
      case .other(let words): .brokenChain(words)
      }
  }
}
