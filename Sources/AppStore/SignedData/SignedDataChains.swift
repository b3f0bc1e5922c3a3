import Cryptography
import Resilience
import Synchronization

import struct FoundationEssentials.Date

/// Chains of certificates of signed data, and the memory of those that verified.
///
/// Apple signs with a handful of chains, and each takes three signatures on a larger curve to check: as long as the same
/// certificates come again, only the times are compared. A refused chain is never remembered, so that nobody can fill
/// the memory with made-up ones.
final class SignedDataChains: Sendable {
  struct Signer: Sendable {
    var key: ES256PublicKey
    var certificate: ReceiptSigner
    /// When every link of the chain is valid, in whole seconds.
    var validity: Range<Date>
  }

  /// The largest certificate that is looked at. Apple's have about 1 KiB.
  static let certificateLimit = 8 * 1_024

  private let roots: TrustedRoots
  private let known: LRUCache<ReceiptFingerprint, Signer>
  private let verifications = Atomic(0)

  init(roots: TrustedRoots, limit: Int) {
    self.roots = roots
    known = LRUCache(limit: limit)
  }

  /// The signer that the first two certificates prove, both in DER.
  ///
  /// The third certificate of `x5c` proves nothing, as the root has to be one of ours. So it is neither looked at nor part
  /// of the key by which a chain is remembered.
  func signer(_ leaf: [UInt8], _ intermediate: [UInt8], at moment: Date) throws(NotAuthentic) -> Signer {
    // The length keeps two certificates from being cut differently into the same octets.
    let name = ReceiptFingerprint(of: Array("\(leaf.count):".utf8) + leaf + intermediate)
    if let signer = known.value(for: name), signer.validity.contains(moment.wholeSecond) { return signer }
    let signer = try verified(leaf, intermediate, at: moment)
    known.insert(signer, for: name)
    return signer
  }

  /// How many chains were verified, and how many are remembered.
  var counts: (verifications: Int, remembered: Int) {
    (verifications.load(ordering: .relaxed), known.counts.remembered)
  }

  private func verified(_ leaf: [UInt8], _ intermediate: [UInt8], at moment: Date) throws(NotAuthentic) -> Signer {
    verifications.add(1, ordering: .relaxed)
    guard let signer = Certificate(der: leaf), let above = Certificate(der: intermediate) else {
      throw .unreadableCertificate
    }
    guard let key = ES256PublicKey(of: signer) else { throw .signerNotP256 }
    let chain = try roots.appleChain(from: signer, through: [above], at: moment)
    guard chain.allSatisfy(\.hasEllipticKey) else { throw .rootNotElliptic }
    guard let validity = chain.validity else { throw .uncheckable }
    return Signer(key: key, certificate: ReceiptSigner(signer, digest: "sha256"), validity: validity)
  }
}
