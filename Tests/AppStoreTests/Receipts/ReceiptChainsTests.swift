import Foundation
import Testing

@testable import AppStore
@testable import Resilience

/// Receipts whose chain was seen before, beside the same receipts judged in full.
@Suite("Remembered chains of receipts")
struct ReceiptChainsTests {
  private static let now = ReceiptVerifierTests.now

  /// A verifier with memories of its own.
  private struct Setup {
    let signers: KnownSigners
    let verifier: ReceiptVerifier

    init(_ roots: TrustedRoots, limit: Int = 64) {
      signers = KnownSigners(limit: limit)
      verifier = ReceiptVerifier(roots: roots, cachedChains: limit, knownSigners: signers)
    }

    var remembered: Int { verifier.chains.counts.remembered }
    var found: Int { verifier.chains.counts.found }

    func decode(_ bytes: [UInt8]) -> Result<AppReceipt, UndecodableReceipt> {
      Result { () throws(UndecodableReceipt) in try AppReceipt.decode(bytes, knowing: signers) }
    }

    func verify(_ bytes: [UInt8], now: Date = ReceiptChainsTests.now) throws -> VerifiedAppReceipt {
      try verifier.verify(decode(bytes).get(), now: now)
    }

    func refusal(_ bytes: [UInt8], now: Date = ReceiptChainsTests.now) throws -> NotAuthentic? {
      let receipt = try decode(bytes).get()
      do throws(NotAuthentic) {
        _ = try verifier.verify(receipt, now: now)
        return nil
      } catch {
        return error
      }
    }
  }

  private func receipt(_ pki: TestPKI, product: String = "one", created: String = "2024-06-15T12:00:00Z") -> TestReceipt
  {
    TestReceipt(pki, payload: TestReceipt.payload(created: created, rows: [TestReceipt.row(product: product)]))
  }

  @Test func `a chain seen before is not built again, and proves the same`() throws {
    let pki = try TestPKI()
    let setup = Setup(try pki.roots())
    let cold = try Setup(pki.roots(), limit: 0)
    for product in ["one", "two", "another of another length"] {
      let bytes = try receipt(pki, product: product).bytes()
      #expect(try setup.verify(bytes) == cold.verify(bytes))
    }
    #expect(setup.found == 2)
    #expect(setup.remembered == 1)
    #expect(setup.signers.counts.found == 2)
    #expect(setup.signers.counts.remembered == 1)
    #expect(cold.remembered == 0 && cold.signers.counts.remembered == 0)
  }

  /// The parts in a frame are judged with the frame; the others must be judged for each receipt.
  @Test func `each receipt of a known frame is refused for the reasons of a full verification`() throws {
    let pki = try TestPKI(.init(leafFrom: "240101000000Z", leafUntil: "250201000000Z"))
    let setup = Setup(try pki.roots())
    for digest in [TestKey.Digest.sha256, .sha1] {
      var good = receipt(pki)
      good.digest = digest
      _ = try setup.verify(good.bytes())
    }
    try #require(setup.remembered == 2)
    let later = Date(timeIntervalSince1970: 1_800_000_000)

    var cases: [(NotAuthentic?, TestReceipt)] = []
    func add(
      _ reason: NotAuthentic?, created: String = "2024-06-15T12:00:00Z", _ change: (inout TestReceipt) throws -> Void
    )
      rethrows
    {
      var changed = receipt(pki, product: "other", created: created)
      try change(&changed)
      cases.append((reason, changed))
    }
    add(nil) { _ in }
    add(.signatureMismatch) { $0.signedContent = TestReceipt.payload(rows: []) }
    try add(.signatureMismatch) { $0.signingKey = try TestPKI.Keys.otherLeaf.get() }
    add(.signatureMismatch) {
      $0.digest = .sha1
      $0.signedContent = [1]
    }
    add(.expired(.signer), created: "2025-02-01T00:00:00Z") { _ in }
    add(nil, created: "2025-01-31T23:59:59.900Z") { _ in }
    add(.notYetValid(.signer), created: "2023-12-31T23:59:59Z") { _ in }
    add(nil, created: "2024-01-01T00:00:00Z") { _ in }
    add(.obsoleteDigest, created: "2025-01-25T00:00:00Z") { $0.digest = .sha1 }
    add(nil, created: "2025-01-24T23:59:59Z") { $0.digest = .sha1 }
    add(.createdInFuture, created: "2027-01-15T08:05:01Z") { _ in }
    add(.xcode) { $0.payload = TestReceipt.payload(type: "Xcode") }
    add(.severalSignatures) { $0.signerCount = 2 }
    add(.noSignature) { $0.signerCount = 0 }
    add(.signerMissing) { $0.serial += 1 }
    add(.signerMissing) { $0.issuer = "Test Root" }
    add(.signerMissing) { $0.bag = [pki.intermediate, pki.root] }
    add(.untrustedRoot) { $0.bag = [pki.leaf, pki.root] }
    add(.unsupportedDigest("sha384")) { $0.digest = .sha384 }
    add(.unsupportedSignatureAlgorithm) { $0.signatureAlgorithm = "1.2.840.113549.1.1.10" }
    add(.signatureMismatch) { $0.signedAttributes = .init(messageDigest: Array(repeating: 0, count: 32)) }
    for (reason, changed) in cases {
      let bytes = try changed.bytes()
      #expect(try setup.refusal(bytes, now: later) == reason)
      #expect(try Setup(pki.roots(), limit: 0).refusal(bytes, now: later) == reason)
    }
  }

  @Test func `a receipt that is refused is not remembered, whatever it is refused for`() throws {
    let pki = try TestPKI()
    let unmarked = try TestPKI(.init(leafMarker: false))
    let intermediate = try TestPKI(.init(intermediateMarker: false))
    let expired = try TestPKI(.init(leafUntil: "240601000000Z"))
    let short = try TestPKI(.init(noIntermediate: true))
    let foreign = try TestPKI(rootKey: TestPKI.Keys.otherRoot)
    let setup = Setup(try pki.roots())
    for other in [unmarked, intermediate, expired, short, foreign] {
      #expect(throws: NotAuthentic.self) { try setup.verify(receipt(other).bytes()) }
    }
    // The chain is right, the signature is not: anybody who has a receipt can make these.
    var forged = receipt(pki)
    forged.signedContent = [1]
    for number in 1...5 {
      forged.bag = pki.bag + Array(repeating: pki.root, count: number)
      #expect(try setup.refusal(forged.bytes()) == .signatureMismatch)
    }
    #expect(setup.remembered == 0)
    #expect(setup.signers.counts.remembered == 0)
  }

  @Test func `no more is remembered than the limit, and what was used last stays`() throws {
    let pki = try TestPKI()
    let setup = Setup(try pki.roots(), limit: 2)
    var receipts: [[UInt8]] = []
    for number in 0..<4 {
      var other = receipt(pki)
      // Frames of the same certificates, in other words.
      other.bag = pki.bag + Array(repeating: pki.root, count: number)
      receipts.append(try other.bytes())
    }
    for bytes in receipts {
      _ = try setup.verify(bytes)
      #expect(setup.remembered <= 2)
      #expect(setup.signers.counts.remembered <= 2)
    }
    #expect(setup.found == 0)
    // 2 and 3 are known; using 2 makes 3 the one that goes.
    _ = try setup.verify(receipts[2])
    #expect(setup.found == 1)
    _ = try setup.verify(receipts[0])
    _ = try setup.verify(receipts[2])
    #expect(setup.found == 2)
    _ = try setup.verify(receipts[3])
    #expect(setup.found == 2)
  }

  @Test func `a frame that is far longer than any of Apple's is not remembered`() throws {
    let pki = try TestPKI()
    let setup = Setup(try pki.roots())
    let key = try TestPKI.Keys.otherLeaf.get()
    let filler = DER.sequence(
      DER.oid("1.2.3.4"), DER.octets(Array(repeating: 0, count: ReceiptFrame.rememberedLimit)))
    var long = receipt(pki)
    long.bag.append(
      try TestPKI.certificate(
        "Filler", key: key, issuer: "Filler", issuerKey: key, serial: 1, from: "230101000000Z", until: "260101000000Z",
        extensions: [filler]))
    _ = try setup.verify(long.bytes())
    _ = try setup.verify(long.bytes())
    #expect(setup.remembered == 0 && setup.signers.counts.remembered == 0)
  }

  /// At another time OpenSSL might choose the other one, and judge the receipt otherwise.
  @Test func `a chain that could be built in two ways is built each time`() throws {
    let pki = try TestPKI()
    let setup = Setup(try pki.roots())
    let key = try TestPKI.Keys.intermediate.get()
    let twin = try TestPKI.certificate(
      "TEST developer relations", key: key, issuer: "Test Root", issuerKey: TestPKI.Keys.root.get(), serial: 77,
      from: "250101000000Z", until: "400101000000Z", extensions: [TestPKI.basicConstraints(true)])
    var ambiguous = receipt(pki)
    ambiguous.bag = [twin] + pki.bag
    _ = try setup.verify(ambiguous.bytes())
    #expect(setup.remembered == 0)
    ambiguous = receipt(pki, created: "2025-06-15T12:00:00Z")
    ambiguous.bag = [twin] + pki.bag
    #expect(
      try setup.refusal(ambiguous.bytes(), now: Date(timeIntervalSince1970: 1_800_000_000)) == .intermediateNotAppStore)
  }

  @Test func `a chain that verified under one set of roots is nothing to another`() throws {
    let pki = try TestPKI()
    let bytes = try receipt(pki).bytes()
    let signers = KnownSigners(limit: 4)
    let trusting = try ReceiptVerifier(roots: pki.roots(), knownSigners: signers)
    let other = try ReceiptVerifier(roots: TestPKI(rootKey: TestPKI.Keys.otherRoot).roots(), knownSigners: signers)
    _ = try trusting.verify(AppReceipt.decode(bytes, knowing: signers), now: Self.now)
    #expect(signers.counts.remembered == 1)
    for _ in 0..<2 {
      #expect(throws: NotAuthentic.untrustedRoot) {
        try other.verify(AppReceipt.decode(bytes, knowing: signers), now: Self.now)
      }
    }
    #expect(other.chains.counts.remembered == 0)
  }

  @Test func `many threads verify with the same chain at once`() async throws {
    let pki = try TestPKI()
    let setup = Setup(try pki.roots())
    let good = try receipt(pki).bytes()
    var forged = receipt(pki)
    forged.signedContent = [1]
    let bad = try forged.bytes()
    _ = try setup.verify(good)
    let wrong = await withTaskGroup(of: Int.self) { group in
      for _ in 0..<8 {
        group.addTask {
          (0..<25).count { _ in
            (try? setup.refusal(good)) != .some(nil) || (try? setup.refusal(bad)) != .signatureMismatch
          }
        }
      }
      return await group.reduce(0, +)
    }
    #expect(wrong == 0)
    #expect(setup.found == 400)
  }
}
