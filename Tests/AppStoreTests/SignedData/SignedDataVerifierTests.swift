import Entitlements
import Foundation
import JSON
import Testing

@testable import AppStore

@Suite("Signed data")
struct SignedDataVerifierTests {
  private let pki: SignedDataPKI
  private let verifier: SignedDataVerifier

  init() throws {
    pki = try SignedDataPKI()
    verifier = try pki.verifier()
  }

  private typealias Sample = SignedSample

  private func expect(
    _ reason: NotAuthentic, _ jws: String, _ verifier: SignedDataVerifier, now: Date = SignedSample.now,
    _ comment: Comment? = nil, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(throws: SignedDataError.notAuthentic(reason), comment, sourceLocation: sourceLocation) {
      try verifier.transaction(jws, now: now)
    }
  }

  @Test func `a signed transaction is proven, and says what the rules need`() throws {
    let verified = try pki.verifier().transaction(pki.sign(Sample.transaction()), now: Sample.now)
    #expect(verified.environment == .production)
    #expect(verified.signer.subject == "CN=Signing")
    #expect(verified.signer.serialNumber == "123456789abc")
    let history = try #require(verified.history())
    #expect(history.source == .signature)
    #expect(history.coverage == .partial(since: nil))
    #expect(history.evidenceTime == Sample.moment(Sample.signedDate))
    #expect(history.evaluatedAt == history.evidenceTime)
    let purchase = try #require(history.purchases.first)
    #expect(history.purchases.count == 1)
    #expect(purchase.reportedAt == history.evidenceTime)
    #expect(purchase.transactionID == "2000000000000002")
    #expect(history.evidence().map(\.key.originalTransactionID) == ["2000000000000001"])
  }

  @Test func `a text with whitespace around it is the same`() throws {
    let jws = try pki.sign(Sample.transaction())
    #expect(
      try verifier.transaction("\r\n " + jws + "\n", now: Sample.now) == verifier.transaction(jws, now: Sample.now))
  }

  @Test func `the algorithm is ES256 and no other, whatever the header says`() throws {
    for name in ["none", "HS256", "ES384", "es256", "RS256"] {
      var jws = try TestJWS(Sample.transaction(), pki)
      jws.algorithm = name
      expect(.unsupportedAlgorithm(name), try jws.text(), verifier)
    }
    var jws = try TestJWS(Sample.transaction(), pki)
    jws.algorithm = nil
    expect(.unsupportedAlgorithm("missing"), try jws.text(), verifier)
    jws.algorithm = "<script>"
    expect(.unsupportedAlgorithm("unknown"), try jws.text(), verifier)
    let unsigned = try jws.text().split(separator: ".").dropLast().joined(separator: ".") + "."
    expect(.unsupportedAlgorithm("unknown"), unsigned, verifier)
  }

  @Test func `an extension that has to be understood is refused, a key that the header offers is not looked at`() throws
  {
    var jws = try TestJWS(Sample.transaction(), pki)
    jws.moreHeader = ["crit": ["exp"]]
    expect(.criticalExtension, try jws.text(), verifier)
    jws.moreHeader = ["crit": NSNull()]
    expect(.criticalExtension, try jws.text(), verifier)
    jws.moreHeader = [
      "jwk": ["kty": "EC"], "jku": "https://example.com/keys", "x5u": "https://example.com/x5u",
      "kid": "Apple_Xcode_Key",
      "typ": "JWT",
    ]
    _ = try verifier.transaction(jws.text(), now: Sample.now)
    // Signed with another key, which the header brings along.
    jws.key = try SignedDataPKI.Keys.otherLeaf.get()
    expect(.signatureMismatch, try jws.text(), verifier)
  }

  @Test func `a chain has exactly three certificates`() throws {
    for chain in [[], [pki.leaf], [pki.leaf, pki.intermediate], pki.chain + [pki.root]] {
      var jws = try TestJWS(Sample.transaction(), pki)
      jws.certificates = chain
      expect(.wrongCertificateCount(chain.count), try jws.text(), verifier)
    }
    var jws = try TestJWS(Sample.transaction(), pki)
    jws.moreHeader = ["x5c": "MII"]
    expect(.wrongCertificateCount(0), try jws.text(), verifier)
    jws.moreHeader = ["x5c": [1, 2, 3]]
    expect(.unreadableCertificate, try jws.text(), verifier)
  }

  @Test func `certificates are standard base64 of one certificate each, and of bounded size`() throws {
    let chain = pki.chain.map { Data($0).base64EncodedString() }
    let huge = String(repeating: "A", count: 12_000)
    let broken = [
      ["AAAA", chain[1], chain[2]], [chain[0], "AAAA", chain[2]], ["*", chain[1], chain[2]], ["", chain[1], chain[2]],
      [Data(pki.leaf + [0]).base64EncodedString(), chain[1], chain[2]], [chain[0], chain[1], huge],
    ]
    for x5c in broken {
      var jws = try TestJWS(Sample.transaction(), pki)
      jws.moreHeader = ["x5c": x5c]
      expect(.unreadableCertificate, try jws.text(), verifier)
    }
  }

  @Test func `the third certificate proves nothing and is not looked at`() throws {
    var jws = try TestJWS(Sample.transaction(), pki)
    jws.certificates[2] = try SignedDataPKI(rootKey: SignedDataPKI.Keys.otherRoot).root
    _ = try pki.verifier().transaction(jws.text(), now: Sample.now)
    jws.certificates[2] = [1, 2, 3]
    _ = try pki.verifier().transaction(jws.text(), now: Sample.now)
  }

  @Test func `a self-made chain of certificates is refused`() throws {
    let forged = try SignedDataPKI(rootKey: SignedDataPKI.Keys.otherRoot)
    expect(.untrustedRoot, try forged.sign(Sample.transaction()), try pki.verifier())
    expect(.untrustedRoot, try forged.sign(Sample.transaction()), SignedDataVerifier())
    // Our root put in their chain does not make it ours.
    var jws = try TestJWS(Sample.transaction(), forged)
    jws.certificates[2] = pki.root
    expect(.untrustedRoot, try jws.text(), try pki.verifier())
  }

  @Test func `a chain needs both marks, the authority and the length`() throws {
    func expect(_ reason: NotAuthentic, _ change: (inout SignedDataPKI.Options) -> Void) throws {
      var options = SignedDataPKI.Options()
      change(&options)
      let pki = try SignedDataPKI(options)
      self.expect(reason, try pki.sign(Sample.transaction()), try pki.verifier())
    }
    try expect(.signerNotForReceipts) { $0.leafMarker = false }
    try expect(.intermediateNotAppStore) { $0.intermediateMarker = false }
    try expect(.intermediateNotAuthority) { $0.intermediateIsCA = false }
    try expect(.intermediateNotAuthority) { $0.intermediateIsCA = nil }
    try expect(.wrongChainLength) { $0.noIntermediate = true }
    try expect(.rootNotElliptic) { $0.rootIsRSA = true }
    try expect(.signerNotP256) { $0.leafKey = SignedDataPKI.Keys.wideLeaf }
    try expect(.signerNotP256) { $0.leafIsRSA = true }
  }

  @Test func `a chain with another intermediate in it is too long, even where all of it is sent`() throws {
    var options = SignedDataPKI.Options()
    options.extraIntermediate = true
    let pki = try SignedDataPKI(options)
    var jws = try TestJWS(Sample.transaction(), pki)
    jws.certificates[2] = try #require(pki.extra)
    expect(.untrustedRoot, try jws.text(), try pki.verifier())
    // The extra one taken for trusted is no root.
    #expect(TrustedRoots(ders: [try #require(pki.extra)]) == nil)
  }

  @Test func `the signature is over this content, by this key, in this form`() throws {
    let honest = try pki.sign(Sample.transaction()).split(separator: ".").map(String.init)
    let other = try pki.sign(Sample.transaction(["productId": "com.example.app.premium"])).split(separator: ".")
      .map(String.init)
    expect(.signatureMismatch, [honest[0], other[1], honest[2]].joined(separator: "."), verifier)
    expect(.signatureMismatch, [honest[0], honest[1], other[2]].joined(separator: "."), verifier)
    expect(.signatureMismatch, [honest[0], honest[1], ""].joined(separator: "."), verifier)

    var jws = try TestJWS(Sample.transaction(), pki)
    jws.signatureInDER = true
    expect(.signatureMismatch, try jws.text(), verifier)

    let signature = try #require(Base64URL.decode(honest[2].utf8))
    let wrong: [[UInt8]] = [
      signature + [0], Array(signature.dropLast()), Array(repeating: 0, count: 64), Array(repeating: 255, count: 64),
    ]
    for changed in wrong {
      expect(.signatureMismatch, [honest[0], honest[1], Base64URL.encode(changed)].joined(separator: "."), verifier)
    }
  }

  @Test func `certificates are judged at the signed date, not now`() throws {
    var options = SignedDataPKI.Options()
    options.leafUntil = "240620000000Z"
    let pki = try SignedDataPKI(options)
    let jws = try pki.sign(Sample.transaction())
    // 2030: the leaf has expired long ago, and was valid when it signed.
    let later = Date(timeIntervalSince1970: 1_893_456_000)
    _ = try pki.verifier().transaction(jws, now: later)

    let afterwards = Sample.transaction(["signedDate": 1_718_841_600_000])
    expect(.expired(.signer), try pki.sign(afterwards), try pki.verifier(), now: later)
    let before = Sample.transaction(["signedDate": 1_672_531_199_000])
    expect(.notYetValid(.signer), try pki.sign(before), try pki.verifier(), now: later)
    options.intermediateUntil = "240601000000Z"
    let shorter = try SignedDataPKI(options)
    expect(.expired(.intermediate), try shorter.sign(Sample.transaction()), try shorter.verifier(), now: later)
  }

  @Test func `a signature of the future is refused, a purchase of the future is not`() throws {
    let now = Int64(Sample.now.timeIntervalSince1970) * 1_000
    _ = try verifier.transaction(pki.sign(Sample.transaction(["signedDate": now + 300_000])), now: Sample.now)
    expect(.createdInFuture, try pki.sign(Sample.transaction(["signedDate": now + 301_000])), verifier)
    // The signer, whose clock it is, has to be proven first.
    let later = try pki.sign(Sample.transaction(["signedDate": now + 301_000])).split(separator: ".")
    let other = try pki.sign(Sample.transaction()).split(separator: ".")
    expect(.signatureMismatch, (later.prefix(2) + other.suffix(1)).joined(separator: "."), verifier)
    // Apple makes renewals up to a day ahead.
    let ahead = Sample.transaction(["purchaseDate": now + 86_400_000])
    _ = try verifier.transaction(pki.sign(ahead), now: Sample.now)
  }

  @Test func `unreadable data is Apple's by its chain, at its own date if that can be read`() throws {
    let unreadable = Sample.transaction(["purchaseDate": "yesterday"])
    let decadesLater = Sample.now + 40 * 365 * 86_400
    #expect(verifier.hasSigned(unreadable: try pki.sign(unreadable) + "\n", now: decadesLater))
    let undated = try pki.sign(Sample.transaction(["signedDate": "today"]))
    #expect(verifier.hasSigned(unreadable: undated, now: Sample.now))
    #expect(!verifier.hasSigned(unreadable: undated, now: decadesLater))
    var jws = try TestJWS(unreadable, pki)
    jws.key = try SignedDataPKI.Keys.otherLeaf.get()
    #expect(!verifier.hasSigned(unreadable: try jws.text(), now: Sample.now))
    // Anybody can sign like Xcode.
    jws = try TestJWS(Sample.transaction(["purchaseDate": "yesterday", "environment": "Xcode"]), pki)
    jws.certificates = [pki.leaf]
    #expect(!(try pki.verifier(acceptsXcode: true)).hasSigned(unreadable: try jws.text(), now: Sample.now))
  }

  @Test func `data signed by Xcode is named so, whatever else is wrong with it`() throws {
    for (name, reason) in [("Xcode", NotAuthentic.xcode), ("LocalTesting", .localTesting)] {
      var jws = try TestJWS(Sample.transaction(["environment": name]), pki)
      expect(reason, try jws.text(), try pki.verifier())
      jws.certificates = [pki.leaf]
      expect(reason, try jws.text(), try pki.verifier())
    }
    var jws = try TestJWS(Sample.transaction(), pki)
    jws.certificates = [pki.leaf]
    jws.moreHeader = ["kid": SignedDataVerifier.xcodeKeyID]
    expect(.xcode, try jws.text(), try pki.verifier())
  }

  @Test func `where Xcode is accepted, what it signed counts as the sandbox's, and nothing else gets easier`() throws {
    let verifier = try pki.verifier(acceptsXcode: true)
    for name in ["Xcode", "LocalTesting"] {
      var jws = try TestJWS(Sample.transaction(["environment": name]), pki)
      jws.certificates = [pki.leaf]
      let verified = try verifier.transaction(jws.text(), now: Sample.now)
      #expect(verified.environment == .sandbox)
      #expect(verified.payload.environment == nil)
      #expect(verified.history()?.environment == .sandbox)
      jws.key = try SignedDataPKI.Keys.otherLeaf.get()
      expect(.signatureMismatch, try jws.text(), verifier)
      jws.certificates = []
      expect(.wrongCertificateCount(0), try jws.text(), verifier)
    }
    // A chain of one does not speak for Apple's stores.
    for name in ["Production", "Sandbox"] {
      var jws = try TestJWS(Sample.transaction(["environment": name]), pki)
      jws.certificates = [pki.leaf]
      expect(.wrongCertificateCount(1), try jws.text(), verifier)
    }
  }

  @Test func `a store that is not known is proven and judged by nobody`() throws {
    let verified = try pki.verifier().transaction(
      pki.sign(Sample.transaction(["environment": "Moon"])), now: Sample.now)
    #expect(verified.payload.environmentName == "Moon")
    #expect(verified.environment == nil)
    #expect(verified.history() == nil)
  }

  @Test func `a transaction that names no store, as in 2021, is proven and judged by nobody`() throws {
    let verified = try pki.verifier().transaction(
      pki.sign(Sample.transaction(["environment": NSNull()])), now: Sample.now)
    #expect(verified.payload.environmentName == nil)
    #expect(verified.environment == nil)
    #expect(verified.history() == nil)
    #expect(
      try pki.verifier().renewalInfo(pki.sign(Sample.renewalInfo(["environment": NSNull()])), now: Sample.now)
        .environment == nil)
    // The signed data in a notification are of the store that it names.
    let reported = try pki.verifier().notification(
      pki.sign(
        Sample.notification(
          data: ["environment": "Sandbox"], transaction: pki.sign(Sample.transaction(["environment": NSNull()])))),
      now: Sample.now)
    #expect(reported.history()?.environment == .sandbox)
    // The third certificate is missing: Xcode's own do not get through without its name either.
    var jws = try TestJWS(Sample.transaction(["environment": NSNull()]), pki)
    jws.certificates = [pki.leaf]
    expect(.wrongCertificateCount(1), try jws.text(), try pki.verifier(acceptsXcode: true))
  }

  @Test func `another kind than the one that is wanted is named`() throws {
    let transaction = try pki.sign(Sample.transaction())
    let renewalInfo = try pki.sign(Sample.renewalInfo())
    let notification = try pki.sign(Sample.notification())
    let download = try pki.sign(["receiptType": "Production", "bundleId": "com.example.app", "applicationVersion": "1"])
    let unknown = try pki.sign(["bundleId": "com.example.app"])
    let asTransaction: [(String, UndecodableReceipt.Kind, String)] = [
      (renewalInfo, .signedRenewalInfo, "This is a signed renewal info, not a signed transaction"),
      (notification, .signedNotification, "This is a signed server notification, not a signed transaction"),
      (download, .signedAppTransaction, "This is a signed app transaction"),
      (unknown, .signedData, "This is signed data of a kind that is not known here"),
    ]
    for (jws, kind, words) in asTransaction {
      #expect {
        try verifier.transaction(jws, now: Sample.now)
      } throws: { error in
        guard case SignedDataError.undecodable(let reason) = error else { return false }
        return reason.kind == kind && reason.detail.hasPrefix(words)
      }
    }
    for wrong in [transaction, notification] {
      #expect(throws: SignedDataError.self) { try verifier.renewalInfo(wrong, now: Sample.now) }
    }
    #expect {
      try verifier.notification(transaction, now: Sample.now)
    } throws: { error in
      guard case SignedDataError.undecodable(let reason) = error else { return false }
      return reason.kind == .signedTransaction && reason.detail.contains("not a signed server notification")
    }
  }

  @Test func `a renewal info is proven in the same way`() throws {
    let verified = try pki.verifier().renewalInfo(pki.sign(Sample.renewalInfo()), now: Sample.now)
    #expect(verified.environment == .production)
    #expect(verified.payload.renewal.reportedAt == Sample.moment(Sample.signedDate))
    let forged = try SignedDataPKI(rootKey: SignedDataPKI.Keys.otherRoot)
    #expect(throws: SignedDataError.notAuthentic(.untrustedRoot)) {
      try pki.verifier().renewalInfo(forged.sign(Sample.renewalInfo()), now: Sample.now)
    }
  }

  @Test func `every reason is a sentence that quotes nothing`() throws {
    let error = SignedDataError.notAuthentic(.unsupportedAlgorithm("none"))
    #expect(error.description == "The algorithm of the signature is none; Apple signs with ES256 only.")
    for canary in ["environment", "productId", "transactionId"] {
      #expect {
        try pki.verifier().transaction(pki.sign(Sample.transaction([canary: ["CANARY"]])), now: Sample.now)
      } throws: { error in
        !String(describing: error).contains("CANARY") && String(describing: error).contains(canary)
      }
    }
  }
}
