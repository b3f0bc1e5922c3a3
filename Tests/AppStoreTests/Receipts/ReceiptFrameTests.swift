import Entitlements
import Foundation
import SeededRandom
import Testing

@testable import AppStore
@testable import Resilience

/// The short ways beside the long ones, over receipts that were damaged or rewritten.
@Suite("Known frames and OpenSSL agree", .computing)
struct ReceiptFrameTests {
  private static let now = Date(timeIntervalSince1970: 1_800_000_000)
  /// `COUNTERSIGN_MUTATIONS` raises it.
  private static let count = ProcessInfo.processInfo.environment["COUNTERSIGN_MUTATIONS"].flatMap { Int($0) } ?? 1_500

  /// The outcome of reading and judging a receipt.
  private struct Outcome: Equatable {
    var decoded: Result<AppReceipt, UndecodableReceipt>
    var verified: Result<VerifiedAppReceipt, NotAuthentic>?

    init(_ bytes: [UInt8], _ verifier: ReceiptVerifier, _ signers: KnownSigners) {
      decoded = Result { () throws(UndecodableReceipt) in try AppReceipt.decode(bytes, knowing: signers) }
      guard case .success(let receipt) = decoded else { return }
      verified = Result { () throws(NotAuthentic) in try verifier.verify(receipt, now: ReceiptFrameTests.now) }
    }
  }

  /// A verifier that knows the originals' frames, and one that knows and learns nothing.
  private struct Pair {
    let warm: (verifier: ReceiptVerifier, signers: KnownSigners)
    let cold: (verifier: ReceiptVerifier, signers: KnownSigners)

    init(_ roots: TrustedRoots, knowing originals: [[UInt8]]) throws {
      let signers = KnownSigners(limit: 64)
      let none = KnownSigners(limit: 0)
      warm = (ReceiptVerifier(roots: roots, knownSigners: signers), signers)
      cold = (ReceiptVerifier(roots: roots, cachedChains: 0, knownSigners: none), none)
      for bytes in originals { _ = try warm.verifier.verify(AppReceipt.decode(bytes, knowing: signers), now: now) }
    }

    func check(_ bytes: [UInt8], _ comment: Comment) {
      let expected = Outcome(bytes, cold.verifier, cold.signers)
      #expect(Outcome(bytes, warm.verifier, warm.signers) == expected, comment)
    }
  }

  @Test func `each octet changed is judged the same by a verifier that knows the frame`() throws {
    let pki = try TestPKI()
    let bytes = try TestReceipt(pki).bytes()
    let pair = try Pair(pki.roots(), knowing: [bytes])
    let frame = try #require(FramedReceipt(bytes)).frame
    // Every octet up to the certificates and behind them; of the certificates one in seven.
    let certificates = (bytes.count - frame.count - 200)..<(bytes.count - 420)
    for index in bytes.indices where !certificates.contains(index) || index % 7 == 0 {
      var changed = bytes
      changed[index] ^= [0x01, 0x80, 0xFF, 0x20][index % 4]
      pair.check(changed, "octet \(index)")
    }
  }

  @Test func `a signer's certificates are known once one of its receipts has verified`() throws {
    let pki = try TestPKI()
    let signers = KnownSigners(limit: 64)
    let verifier = ReceiptVerifier(roots: try pki.roots(), knownSigners: signers)
    let more = TestReceipt.attribute(9_999, [UInt8](repeating: 7, count: 50))
    let receipts = try [TestReceipt.payload(), TestReceipt.payload(extra: [more])].map { payload in
      try TestReceipt(pki, payload: payload).bytes()
    }
    let receipt = try AppReceipt.decode(receipts[0], knowing: signers)
    #expect(receipt.sharedOctets(knowing: signers) == nil)
    _ = try verifier.verify(receipt, now: Self.now)
    let shared = try #require(receipt.sharedOctets(knowing: signers))
    let other = try AppReceipt.decode(receipts[1], knowing: signers)
    let alike = try #require(other.sharedOctets(knowing: signers))
    #expect(receipts[0][shared] == receipts[1][alike])
    // The certificates are in it, and neither payload nor signature.
    #expect(shared.lowerBound > receipts[0].count - shared.count - 300)
    #expect(shared.count > receipts[0].count / 2 && shared.upperBound < receipts[0].count - 200)
  }

  @Test func `damage of every kind is judged the same by a verifier that knows the frame`() throws {
    let pki = try TestPKI()
    var sha1 = TestReceipt(pki)
    sha1.digest = .sha1
    var attributes = TestReceipt(pki)
    attributes.signedAttributes = .init()
    let originals = try [TestReceipt(pki).bytes(), sha1.bytes(), attributes.bytes()]
    let pair = try Pair(pki.roots(), knowing: originals)
    var generator = SeededRandom(seed: 0xF4A3E)
    for round in 0..<Self.count {
      pair.check(ReceiptMutationTests.mutate(originals[round % 3], with: &generator), "round \(round)")
    }
  }

  /// The signature holds for whatever the payload became, so that the short way is taken to its end.
  @Test func `a damaged payload that is signed is read the same by a verifier that knows the frame`() throws {
    let pki = try TestPKI()
    let pair = try Pair(pki.roots(), knowing: [TestReceipt(pki).bytes()])
    let payload = TestReceipt.payload()
    var generator = SeededRandom(seed: 0x9A71)
    for round in 0..<(Self.count / 5) {
      var changed = payload
      if round % 3 == 0 {
        changed = ReceiptMutationTests.mutate(payload, with: &generator)
      } else {
        changed[Int.random(in: 0..<payload.count, using: &generator)] ^= 1 << UInt8.random(in: 0..<8, using: &generator)
      }
      pair.check(try TestReceipt(pki, payload: changed).bytes(), "round \(round)")
    }
    for changed in [[], [0x00], DER.octets(payload), DER.octets(DER.octets(payload)), payload + [0]] {
      pair.check(try TestReceipt(pki, payload: changed).bytes(), "\(changed.count) octets")
    }
    #expect(pair.warm.verifier.chains.counts.found > Self.count / 25)
  }

  @Test func `a receipt is taken apart into what OpenSSL finds in it`() throws {
    let pki = try TestPKI()
    let receipt = TestReceipt(pki)
    let bytes = try receipt.bytes()
    let framed = try #require(FramedReceipt(bytes))
    #expect(Array(framed.content) == receipt.payload)
    #expect(try SignedMessage(bytes).content == receipt.payload)
    #expect(try Array(framed.signature) == pki.leafKey.sign(receipt.payload))
    #expect(framed.frame.detached == framed.frame)
    // Another payload: the same frame. Another order of certificates, another digest: another.
    #expect(try FramedReceipt(TestReceipt(pki, payload: [1, 2, 3]).bytes())?.frame == framed.frame)
    var other = receipt
    other.bag.reverse()
    #expect(try FramedReceipt(other.bytes())?.frame != framed.frame)
    other = receipt
    other.digest = .sha1
    #expect(try FramedReceipt(other.bytes())?.frame != framed.frame)
    other = receipt
    other.serial += 1
    #expect(try FramedReceipt(other.bytes())?.frame != framed.frame)
  }

  @Test func `a receipt of another form is left to OpenSSL`() throws {
    let pki = try TestPKI()
    let receipt = TestReceipt(pki)
    let bytes = try receipt.bytes()
    var ber = receipt
    ber.form = .ber
    var attributes = receipt
    attributes.signedAttributes = .init()
    var two = receipt
    two.signerCount = 2
    var none = receipt
    none.signerCount = 0
    for other in [ber, attributes, two, none] { #expect(try FramedReceipt(other.bytes()) == nil) }
    #expect(try FramedReceipt(TestReceipt(pki, payload: []).bytes()) == nil)
    #expect(FramedReceipt(bytes + [0]) == nil)
    for count in [0, 1, 2, 4, 20, 60, bytes.count - 300, bytes.count - 1] {
      #expect(FramedReceipt(Array(bytes.prefix(count))) == nil)
    }
    // The same length in more octets than it needs: BER, not DER.
    #expect(bytes[1] == 0x82)
    #expect(FramedReceipt([0x30, 0x83, 0x00] + bytes[2...]) == nil)
    #expect(try AppReceipt.decode([0x30, 0x83, 0x00] + bytes[2...]).bundleID == "com.example.app")
  }

  @Test(.enabled(if: ReceiptFixtures.areThere, "the folder of real receipts is not there; set COUNTERSIGN_FIXTURES"))
  func `receipts signed by Apple have the usual form, and read the same when their frame is known`() throws {
    var count = 0
    for entry in ReceiptFixtures.listed("pkcs7_receipt") {
      guard try entry.expect()["root"] as? String == "AppleRootCA" else { continue }
      let submitted = try SubmittedReceipt.decode(contents: ReceiptFixtures.contents(entry.file))
      guard case .app(let receipt) = submitted.content else { continue }
      let pair = try Pair(.apple, knowing: [receipt.encoded])
      pair.check(receipt.encoded, "\(entry.id)")
      #expect(pair.warm.verifier.chains.counts == (1, 1), "\(entry.id)")
      #expect(pair.warm.signers.counts == (1, 1), "\(entry.id)")
      var generator = SeededRandom(seed: 0xA991E)
      for round in 0..<(Self.count / 30) {
        pair.check(ReceiptMutationTests.mutate(receipt.encoded, with: &generator), "\(entry.id), round \(round)")
      }
      count += 1
    }
    #expect(count > 0)
  }
}
