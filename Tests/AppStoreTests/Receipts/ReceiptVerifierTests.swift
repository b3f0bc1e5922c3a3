import Entitlements
import FoundationEssentials
import Testing

@testable import AppStore

@Suite("Receipt verification")
struct ReceiptVerifierTests {
  private let pki: TestPKI

  init() throws { pki = try TestPKI() }

  /// 2024-06-15T12:10:00Z, ten minutes after the test receipts were created.
  static let now = Date(timeIntervalSince1970: 1_718_453_400)

  private func verify(
    _ receipt: TestReceipt, roots: TrustedRoots, now: Date = ReceiptVerifierTests.now
  ) throws -> VerifiedAppReceipt {
    try ReceiptVerifier(roots: roots).verify(AppReceipt.decode(receipt.bytes()), now: now)
  }

  private func expect(
    _ reason: NotAuthentic, _ receipt: TestReceipt, roots: TrustedRoots, now: Date = ReceiptVerifierTests.now,
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(throws: reason, sourceLocation: sourceLocation) { try verify(receipt, roots: roots, now: now) }
  }

  @Test(arguments: TestReceipt.Form.allCases)
  func `a receipt signed under a trusted root is authentic, in DER and in BER`(form: TestReceipt.Form) throws {
    var receipt = TestReceipt(pki)
    receipt.form = form
    let verified = try verify(receipt, roots: pki.roots())
    #expect(verified.receipt.bundleID == "com.example.app")
    #expect(verified.signer.subject == "CN=Receipt Signing")
    #expect(verified.signer.issuer == "CN=Test Developer Relations")
    #expect(verified.signer.serialNumber == "123456789abc")
    #expect(verified.signer.digest == "sha256")
    #expect(verified.signer.notBefore == Date(timeIntervalSince1970: 1_672_531_200))
    #expect(verified.signer.notAfter == Date(timeIntervalSince1970: 1_767_225_600))
  }

  @Test func `certificates that have expired since do not matter`() throws {
    let decadesLater = Date(timeIntervalSince1970: 4_000_000_000)
    _ = try verify(TestReceipt(pki), roots: pki.roots(), now: decadesLater)
  }

  @Test func `the order of the certificates means nothing, and the root may be left out`() throws {
    var receipt = TestReceipt(pki)
    receipt.bag = pki.bag.reversed()
    _ = try verify(receipt, roots: pki.roots())
    receipt.bag = [pki.intermediate, pki.leaf]
    _ = try verify(receipt, roots: pki.roots())
  }

  @Test func `another root is refused, though it has the same name`() throws {
    let other = try TestPKI(rootKey: TestPKI.Keys.otherRoot)
    expect(.untrustedRoot, TestReceipt(pki), roots: try other.roots())
    expect(.untrustedRoot, TestReceipt(pki), roots: .apple)
  }

  @Test func `a root in the receipt is never trusted`() throws {
    let smuggled = try TestPKI(rootKey: TestPKI.Keys.otherRoot)
    var receipt = TestReceipt(smuggled)
    receipt.bag = smuggled.bag + [pki.root]
    expect(.untrustedRoot, receipt, roots: try pki.roots())
  }

  @Test func `a signer without the receipt mark is refused`() throws {
    let pki = try TestPKI(.init(leafMarker: false))
    expect(.signerNotForReceipts, TestReceipt(pki), roots: try pki.roots())
  }

  @Test func `an intermediate without Apple's mark is refused`() throws {
    let pki = try TestPKI(.init(intermediateMarker: false))
    expect(.intermediateNotAppStore, TestReceipt(pki), roots: try pki.roots())
  }

  @Test(arguments: [false, nil])
  func `an intermediate that is no certificate authority is refused`(isCA: Bool?) throws {
    let pki = try TestPKI(.init(intermediateIsCA: isCA))
    expect(.intermediateNotAuthority, TestReceipt(pki), roots: try pki.roots())
  }

  @Test func `a chain without an intermediate, or with two, is refused`() throws {
    let short = try TestPKI(.init(noIntermediate: true))
    expect(.wrongChainLength, TestReceipt(short), roots: try short.roots())
    let long = try TestPKI(.init(extraIntermediate: true))
    expect(.wrongChainLength, TestReceipt(long), roots: try long.roots())
  }

  @Test func `each certificate must be valid at the creation date`() throws {
    let expired = try TestPKI(.init(leafUntil: "240601000000Z"))
    expect(.expired(.signer), TestReceipt(expired), roots: try expired.roots())
    let early = try TestPKI(.init(leafFrom: "240616000000Z"))
    expect(.notYetValid(.signer), TestReceipt(early), roots: try early.roots())
    let intermediate = try TestPKI(.init(intermediateUntil: "240601000000Z"))
    expect(.expired(.intermediate), TestReceipt(intermediate), roots: try intermediate.roots())
    let root = try TestPKI(.init(rootUntil: "240601000000Z"))
    expect(.expired(.root), TestReceipt(root), roots: try root.roots())
  }

  @Test func `a receipt without a signature, or with two, is refused`() throws {
    var receipt = TestReceipt(pki)
    receipt.signerCount = 0
    expect(.noSignature, receipt, roots: try pki.roots())
    receipt.signerCount = 2
    expect(.severalSignatures, receipt, roots: try pki.roots())
  }

  @Test func `content that was not signed is refused`() throws {
    var receipt = TestReceipt(pki)
    receipt.signedContent = TestReceipt.payload(rows: [])
    expect(.signatureMismatch, receipt, roots: try pki.roots())
  }

  @Test func `a signature by another key than the named certificate's is refused`() throws {
    var receipt = TestReceipt(pki)
    receipt.signingKey = try TestPKI.Keys.otherLeaf.get()
    expect(.signatureMismatch, receipt, roots: try pki.roots())
  }

  @Test func `a signer that the receipt does not carry is refused`() throws {
    var receipt = TestReceipt(pki)
    receipt.serial = 99
    expect(.signerMissing, receipt, roots: try pki.roots())
    receipt = TestReceipt(pki)
    receipt.bag = [pki.intermediate, pki.root]
    expect(.signerMissing, receipt, roots: try pki.roots())
  }

  /// An attacker's certificate with the names and number of a real signer, before or after it in the bag.
  @Test(arguments: [true, false])
  func `a forged twin of the signer's certificate does not help`(isFirst: Bool) throws {
    let forgedKey = try TestPKI.Keys.otherLeaf.get()
    let twin = try TestPKI.certificate(
      "Receipt Signing", key: forgedKey, issuer: TestPKI.intermediateName, issuerKey: forgedKey,
      serial: pki.leafSerial, from: "230101000000Z", until: "260101000000Z",
      extensions: [TestPKI.basicConstraints(false), TestPKI.marker(ReceiptVerifier.leafMarker)])
    var receipt = TestReceipt(pki)
    receipt.bag = isFirst ? [twin] + pki.bag : pki.bag + [twin]
    receipt.signingKey = forgedKey
    #expect(throws: NotAuthentic.self) { try verify(receipt, roots: pki.roots()) }
  }

  @Test func `SHA-1 is taken up to 24 January 2025 and refused after it`() throws {
    let later = Date(timeIntervalSince1970: 1_750_000_000)
    var receipt = TestReceipt(pki, payload: TestReceipt.payload(created: "2025-01-24T23:59:59Z"))
    receipt.digest = .sha1
    _ = try verify(receipt, roots: pki.roots(), now: later)
    receipt = TestReceipt(pki, payload: TestReceipt.payload(created: "2025-01-25T00:00:00Z"))
    receipt.digest = .sha1
    expect(.obsoleteDigest, receipt, roots: try pki.roots(), now: later)
    receipt.digest = .sha256
    _ = try verify(receipt, roots: pki.roots(), now: later)
  }

  @Test func `other digests and signature algorithms are refused`() throws {
    var receipt = TestReceipt(pki)
    receipt.digest = .sha384
    expect(.unsupportedDigest("sha384"), receipt, roots: try pki.roots())
    receipt = TestReceipt(pki)
    receipt.signatureAlgorithm = "1.2.840.113549.1.1.10"
    expect(.unsupportedSignatureAlgorithm, receipt, roots: try pki.roots())
  }

  @Test func `a signature algorithm may name its digest`() throws {
    var receipt = TestReceipt(pki)
    receipt.signatureAlgorithm = "1.2.840.113549.1.1.11"
    _ = try verify(receipt, roots: pki.roots())
  }

  @Test func `a receipt from the future is refused beyond five minutes`() throws {
    let receipt = TestReceipt(pki)
    let created = Self.now.addingTimeInterval(-600)
    _ = try verify(receipt, roots: pki.roots(), now: created.addingTimeInterval(-300))
    expect(.createdInFuture, receipt, roots: try pki.roots(), now: created.addingTimeInterval(-301))
  }

  @Test func `signed attributes must name the content's digest and type`() throws {
    var receipt = TestReceipt(pki)
    receipt.signedAttributes = .init()
    _ = try verify(receipt, roots: pki.roots())
    receipt.signedAttributes = .init(messageDigest: Array(repeating: 0, count: 32))
    expect(.signatureMismatch, receipt, roots: try pki.roots())
    receipt.signedAttributes = .init(contentType: "1.2.840.113549.1.9.16.1.4")
    expect(.signatureMismatch, receipt, roots: try pki.roots())
  }

  @Test func `Xcode's receipts are recognised by their type and by their signer`() throws {
    expect(
      .xcode, TestReceipt(pki, payload: TestReceipt.payload(type: "Xcode")), roots: try pki.roots())
    let testing = try TestPKI(.init(leafName: "StoreKit Testing in Xcode"))
    expect(.xcode, TestReceipt(testing), roots: try testing.roots())
  }

  @Test func `a double-wrapped payload is verified as it was signed`() throws {
    let receipt = TestReceipt(pki, payload: DER.octets(TestReceipt.payload()))
    #expect(try verify(receipt, roots: pki.roots()).receipt.transactions.count == 1)
  }

  @Test func `a proven receipt is evidence as old as its signature`() throws {
    let verified = try verify(TestReceipt(pki), roots: pki.roots())
    let history = try #require(verified.history(evaluatedAt: Self.now))
    #expect(history.environment == .production)
    #expect(history.source == .signature)
    #expect(history.evidenceTime == Date(timeIntervalSince1970: 1_718_452_800))
    #expect(history.evaluatedAt == Self.now)
    #expect(history.purchases.map(\.transactionID) == ["200000111"])
    let unknown = try verify(
      TestReceipt(pki, payload: TestReceipt.payload(type: "Tomorrow")), roots: pki.roots())
    #expect(unknown.history(evaluatedAt: Self.now) == nil)
  }

  @Test func `every reason has a sentence of its own`() {
    let reasons: [NotAuthentic] =
      [
        .xcode, .noSignature, .severalSignatures, .signerMissing, .unsupportedDigest("md5"),
        .unsupportedSignatureAlgorithm, .obsoleteDigest, .createdInFuture, .signerNotForReceipts, .untrustedRoot,
        .intermediateNotAuthority, .intermediateNotAppStore, .wrongChainLength, .brokenChain("words"),
        .signatureMismatch, .uncheckable, .localTesting, .unsupportedAlgorithm("none"), .criticalExtension,
        .wrongCertificateCount(2), .unreadableCertificate, .signerNotP256, .rootNotElliptic, .innerOfAnotherApp,
        .innerOfAnotherEnvironment,
      ] + NotAuthentic.Link.allCases.flatMap { [.expired($0), .notYetValid($0)] }
    #expect(Set(reasons.map(\.description)).count == reasons.count)
    #expect(NotAuthentic.xcode.description.contains("Xcode"))
  }
}
