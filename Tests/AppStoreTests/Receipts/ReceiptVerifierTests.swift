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

  @Test func `an unreadable receipt is Apple's by its chain, at its own date if that can be read`() throws {
    let verifier = ReceiptVerifier(roots: try pki.roots())
    let decadesLater = Date(timeIntervalSince1970: 4_000_000_000.000_000_250)
    func isSigned(_ receipt: TestReceipt, now: Date = Self.now) throws -> Bool {
      verifier.hasSigned(unreadable: Data(try receipt.bytes()).base64EncodedString(), now: now)
    }
    let row = TestReceipt.row(expires: "someday")
    #expect(try isSigned(TestReceipt(pki, payload: TestReceipt.payload(rows: [row])), now: decadesLater))
    let undated = TestReceipt(pki, payload: TestReceipt.payload(created: "today"))
    #expect(try isSigned(undated))
    #expect(try !isSigned(undated, now: decadesLater))
    #expect(try isSigned(TestReceipt(pki, payload: DER.octets([1, 2, 3]))))
    var forged = TestReceipt(pki, payload: TestReceipt.payload(rows: [row]))
    forged.signingKey = try TestPKI.Keys.otherRoot.get()
    #expect(try !isSigned(forged))
    #expect(try !isSigned(TestReceipt(TestPKI(rootKey: TestPKI.Keys.otherRoot), payload: undated.payload)))
    #expect(!verifier.hasSigned(unreadable: "MIIB", now: Self.now))
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

  @Test(
    arguments: [
      (.init(leafMarker: false), .signerNotForReceipts), (.init(intermediateMarker: false), .intermediateNotAppStore),
      (.init(intermediateIsCA: false), .intermediateNotAuthority),
      (.init(intermediateIsCA: nil), .intermediateNotAuthority), (.init(noIntermediate: true), .wrongChainLength),
      (.init(extraIntermediate: true), .wrongChainLength), (.init(leafUntil: "240601000000Z"), .expired(.signer)),
      (.init(leafFrom: "240616000000Z"), .notYetValid(.signer)),
      (.init(intermediateUntil: "240601000000Z"), .expired(.intermediate)),
      (.init(rootUntil: "240601000000Z"), .expired(.root)), (.init(leafName: "StoreKit Testing in Xcode"), .xcode),
    ] as [(TestPKI.Options, NotAuthentic)])
  func `a chain unlike Apple's, or not valid at the creation date, is refused`(
    options: TestPKI.Options, reason: NotAuthentic
  ) throws {
    let pki = try TestPKI(options)
    expect(reason, TestReceipt(pki), roots: try pki.roots())
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
