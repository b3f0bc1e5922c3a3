import Cryptography
import Resilience
import struct FoundationEssentials.Date

/// The memory of chains of certificates that receipts verified with.
///
/// A chain is remembered by the frame of its receipt, and only once the signature was found to hold too: so nobody can
/// fill the memory with made-up certificates. Anybody with a receipt from Apple can still write its frame in other
/// ways; that makes room for itself only, and costs the others one full verification.
struct ReceiptChains: Sendable {
  struct Signer: Sendable {
    var key: RSAPublicKey
    var certificate: ReceiptSigner
    /// When every link of the chain is valid, in whole seconds.
    var validity: Range<Date>
  }

  private let known: LRUCache<ReceiptFrame, Signer>

  init(limit: Int) { known = LRUCache(limit: limit) }

  var counts: (found: Int, remembered: Int) { known.counts }

  /// The signer that a receipt of this frame verified with, if all of its chain is valid at `moment`.
  func signer(of frame: ReceiptFrame, at moment: Date) -> Signer? {
    guard let signer = known.value(for: frame) else { return nil }
    return signer.validity.contains(moment.wholeSecond) ? signer : nil
  }

  /// Remembers the signer of a receipt that verified.
  ///
  /// - Parameters:
  ///   - chain: from the signer to the root.
  ///   - candidates: every certificate that the chain could have been built from.
  func remember(_ signer: ReceiptSigner, as frame: ReceiptFrame, chain: [Certificate], candidates: [Certificate]) {
    let digest: DigestAlgorithm
    switch signer.digest {
    case "sha1": digest = .sha1
    case "sha256": digest = .sha256
    default: return
    }
    guard frame.count <= ReceiptFrame.rememberedLimit, Self.isOnlyChain(candidates), let validity = chain.validity,
      let leaf = chain.first, let key = RSAPublicKey(of: leaf, digest: digest)
    else { return }
    known.insert(Signer(key: key, certificate: signer, validity: validity), for: frame.detached)
  }

  /// Whether the candidates can be put together in one way only.
  ///
  /// OpenSSL chooses, of two issuers with the same name, one that is valid at the time in question. At another time it
  /// might build another chain, and judge it otherwise.
  private static func isOnlyChain(_ candidates: [Certificate]) -> Bool {
    var distinct: [(certificate: Certificate, der: [UInt8])] = []
    for candidate in candidates {
      let der = candidate.der
      if distinct.contains(where: { $0.der == der }) { continue }
      guard !distinct.contains(where: { $0.certificate.hasSameSubject(as: candidate) }) else { return false }
      distinct.append((candidate, der))
    }
    return true
  }
}
