import Synchronization

import struct FoundationEssentials.Date

/// Chains of certificates of signed data, and the memory of those that verified.
///
/// Apple signs with a handful of chains, and each takes three signatures on a larger curve to check: as long as the same
/// certificates come again, only the times are compared. A refused chain is never remembered, so that nobody can fill
/// the memory with made-up ones.
final class SignedDataChains: Sendable {
  /// A signer that leads to a trusted root.
  struct Signer: Sendable {
    var key: ES256PublicKey
    var certificate: ReceiptSigner
    /// When every link of the chain is valid, in whole seconds.
    var validity: Range<Date>
  }

  private struct State {
    var known: [ReceiptFingerprint: (signer: Signer, lastUse: UInt64)] = [:]
    var uses: UInt64 = 0
    var verifications = 0
  }

  /// The largest certificate that is looked at. Apple's have about 1 KiB.
  static let certificateLimit = 8 * 1_024

  private let roots: TrustedRoots
  private let limit: Int
  /// Guards the chains that verified, and the counts.
  private let state = Mutex(State())

  init(roots: TrustedRoots, limit: Int) {
    self.roots = roots
    self.limit = limit
  }

  /// The signer that the first two certificates prove, both in DER.
  ///
  /// What stands third in `x5c` proves nothing: the root is one of ours or none, and so it is neither looked at nor part
  /// of what a chain is remembered by.
  func signer(_ leaf: [UInt8], _ intermediate: [UInt8], at moment: Date) throws(NotAuthentic) -> Signer {
    // The length keeps two certificates from being cut differently into the same octets.
    let name = ReceiptFingerprint(of: Array("\(leaf.count):".utf8) + leaf + intermediate)
    if let known = recall(name), known.validity.contains(moment.wholeSecond) { return known }
    let signer = try verified(leaf, intermediate, at: moment)
    remember(signer, as: name)
    return signer
  }

  /// How many chains were verified, and how many are remembered.
  var counts: (verifications: Int, remembered: Int) { state.withLock { ($0.verifications, $0.known.count) } }

  private func recall(_ name: ReceiptFingerprint) -> Signer? {
    state.withLock { state in
      guard let signer = state.known[name]?.signer else { return nil }
      state.uses += 1
      state.known[name]?.lastUse = state.uses
      return signer
    }
  }

  private func remember(_ signer: Signer, as name: ReceiptFingerprint) {
    guard limit > 0 else { return }
    state.withLock { state in
      if state.known[name] == nil, state.known.count >= limit,
        let oldest = state.known.min(by: { $0.value.lastUse < $1.value.lastUse })
      {
        state.known[oldest.key] = nil
      }
      state.uses += 1
      state.known[name] = (signer, state.uses)
    }
  }

  private func verified(_ leaf: [UInt8], _ intermediate: [UInt8], at moment: Date) throws(NotAuthentic) -> Signer {
    state.withLock { $0.verifications += 1 }
    guard let signer = Certificate(der: leaf), let above = Certificate(der: intermediate) else {
      throw .unreadableCertificate
    }
    guard let key = ES256PublicKey(of: signer) else { throw .signerNotP256 }
    let chain = try roots.appleChain(from: signer, through: [above], at: moment)
    guard chain.allSatisfy(\.hasEllipticKey) else { throw .rootNotElliptic }
    let starts = chain.compactMap(\.notBefore)
    let ends = chain.compactMap(\.notAfter)
    guard starts.count == chain.count, ends.count == chain.count, let start = starts.max(), let end = ends.min(),
      start < end
    else { throw .uncheckable }
    return Signer(key: key, certificate: ReceiptSigner(signer, digest: "sha256"), validity: start..<end)
  }
}

extension Date {
  /// As certificates count time.
  fileprivate var wholeSecond: Date { Date(timeIntervalSince1970: timeIntervalSince1970.rounded(.down)) }
}
