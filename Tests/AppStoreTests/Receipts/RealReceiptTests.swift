import Cryptography
import Entitlements
import Foundation
import Testing

@testable import AppStore

/// Over receipts that Apple and Xcode made; skipped where their folder is not.
@Suite(
  "Real receipts",
  .enabled(if: ReceiptFixtures.areThere, "the folder of real receipts is not there; set COUNTERSIGN_FIXTURES"))
struct RealReceiptTests {
  private static let now = Date(timeIntervalSince1970: 1_795_000_000)

  private func appReceipt(_ file: String) throws -> AppReceipt {
    let submitted = try SubmittedReceipt.decode(contents: ReceiptFixtures.contents(file))
    guard case .app(let receipt) = submitted.content else { throw TestKey.Failure() }
    return receipt
  }

  private func text(_ date: Date?) -> String { date.map(ReceiptDate.format) ?? "" }

  @Test(arguments: ReceiptFixtures.listed("pkcs7_receipt"))
  func `each field is decoded as expected`(entry: ReceiptFixtures.Case) throws {
    let receipt = try appReceipt(entry.file)
    let expect = try entry.expect()
    let file = try #require(expect["full_decode"] as? String)
    let full = try #require(
      try JSONSerialization.jsonObject(with: ReceiptFixtures.bytes(file)) as? [String: Any])
    let attributes = try #require(full["attributes"] as? [String: Any])
    func string(_ key: String) -> String { attributes[key] as? String ?? "" }
    func number(_ key: String) -> Int64? { (attributes[key] as? NSNumber)?.int64Value }
    let others = try ReceiptAttributes(payload: SignedMessage(receipt.encoded).content[...])
    #expect(receipt.receiptType ?? "" == string("0"))
    #expect(receipt.bundleID.rawValue == string("2"))
    #expect(receipt.applicationVersion ?? "" == string("3"))
    #expect(hexadecimal(try others.octets(4)) == string("4"))
    #expect(hexadecimal(try others.octets(5)) == string("5"))
    #expect(text(receipt.createdAt) == string("12"))
    #expect(text(try others.date(18)) == string("18"))
    #expect(receipt.originalApplicationVersion ?? "" == string("19"))
    #expect(text(receipt.expiresAt) == string("21"))
    #expect(others.undocumentedInteger(1) == number("1"))
    #expect(others.undocumentedInteger(15) == number("15"))
    #expect(others.undocumentedInteger(16) == number("16"))

    let rows = try #require(full["in_app"] as? [[String: Any]])
    try #require(receipt.transactions.count == rows.count)
    for (transaction, row) in zip(receipt.transactions, rows) {
      func string(_ key: String) -> String { row[key] as? String ?? "" }
      func number(_ key: String) -> Int64? { (row[key] as? NSNumber)?.int64Value }
      #expect(transaction.quantity == number("quantity"))
      #expect(transaction.productID.rawValue == string("product_id"))
      #expect(transaction.transactionID.rawValue == string("transaction_id"))
      #expect(transaction.originalTransactionID?.rawValue ?? "" == string("original_transaction_id"))
      #expect(text(transaction.purchaseDate) == string("purchase_date"))
      #expect(text(transaction.originalPurchaseDate) == string("original_purchase_date"))
      #expect(text(transaction.expiresDate) == string("expires_date"))
      #expect(text(transaction.cancellationDate) == string("cancellation_date"))
      #expect(transaction.webOrderLineItemID == number("web_order_line_item_id"))
      #expect(transaction.productType == number("type?1707"))
      #expect(transaction.isTrial == number("is_trial").map { $0 == 1 })
      #expect(transaction.isIntroductoryOffer == number("is_in_intro_offer").map { $0 == 1 })
    }
  }

  @Test(arguments: ReceiptFixtures.listed("pkcs7_receipt"))
  func `receipts signed by Apple are authentic, and those signed by Xcode are named so`(entry: ReceiptFixtures.Case)
    throws
  {
    let receipt = try appReceipt(entry.file)
    let expect = try entry.expect()
    let leaf = try #require(expect["leaf"] as? [String: Any])
    if expect["root"] as? String == "AppleRootCA" {
      let verified = try ReceiptVerifier().verify(receipt, now: Self.now)
      #expect(verified.signer.serialNumber == leaf["serial"] as? String)
      #expect(verified.signer.digest == expect["digest"] as? String)
      #expect(
        verified.signer.notBefore.map { ReceiptDate.format($0).prefix(10) }
          == (leaf["not_before"] as? String)?.prefix(10))
      #expect(receipt.environment == .sandbox)
      // The roots of others prove nothing about it.
      let other = try TestPKI().roots()
      #expect(throws: NotAuthentic.untrustedRoot) { try ReceiptVerifier(roots: other).verify(receipt, now: Self.now) }
    } else {
      #expect(throws: NotAuthentic.xcode) { try ReceiptVerifier().verify(receipt, now: Self.now) }
    }
  }

  @Test func `the raw octets of the bundle ID give the device hash`() throws {
    let receipt = try appReceipt("IdeasOnCanvas__AppReceiptValidator/p7-ioc-purchasing-experiments-sandbox.b64")
    let device = try #require(Data(base64Encoded: "5hgQmGLdQz+7lGddOBXSYw=="))
    let attributes = try ReceiptAttributes(payload: SignedMessage(receipt.encoded).content[...])
    let hash = try TestKey.Digest.sha1.hash([UInt8](device) + attributes.octets(4) + attributes.octets(2))
    #expect(try hash == Array(attributes.octets(5)))
  }

  @Test(arguments: ReceiptFixtures.listed("derived_hostile"))
  func `receipts that were tampered with are told apart from those that were only wrapped`(
    entry: ReceiptFixtures.Case
  ) throws {
    let inspection = try ReceiptInspection(of: ReceiptFixtures.contents(entry.file), now: Self.now)
    let verdict = try #require(entry.expect()["verdict"] as? String)
    switch verdict {
    case _ where verdict.hasPrefix("accept"):
      #expect(inspection.outcome == .authentic)
    case "reject: signature":
      #expect(inspection.outcome == .notAuthentic)
      #expect(inspection.report.problem == NotAuthentic.signatureMismatch.description)
    case _ where verdict.hasPrefix("reject: malformed"):
      #expect(inspection.report.kind == UndecodableReceipt.Kind.truncated.rawValue)
    case "reject: alg":
      #expect(inspection.outcome == .notAuthentic)
      #expect(inspection.report.kind == "signed_transaction")
      #expect(inspection.report.problem == NotAuthentic.unsupportedAlgorithm("none").description)
    default:
      Issue.record("no rule for \(verdict)")
    }
  }

  @Test(arguments: ReceiptFixtures.listed("own_pki_receipt"))
  func `receipts under a configured root are authentic under it and nowhere else`(entry: ReceiptFixtures.Case) throws {
    let receipt = try appReceipt(entry.file)
    let path = ReceiptFixtures.folder.appending(path: "own-pki/fixture-root-rsa.der").path()
    _ = try ReceiptVerifier(roots: TrustedRoots(files: [path])).verify(receipt, now: Self.now)
    #expect(receipt.environment == .production)
    #expect(throws: NotAuthentic.untrustedRoot) { try ReceiptVerifier().verify(receipt, now: Self.now) }
  }

  @Test(arguments: ReceiptFixtures.listed("generated_fake_pki"))
  func `receipts of a made-up PKI without Apple's marks are refused, even under their own root`(
    entry: ReceiptFixtures.Case
  ) throws {
    // The others are signed transactions, which have tests of their own.
    guard try entry.expect()["design"] != nil else { return }
    let receipt = try appReceipt(entry.file)
    #expect(throws: NotAuthentic.self) { try ReceiptVerifier().verify(receipt, now: Self.now) }
    // Their root, where the receipt carries it, taken for trusted.
    let embedded = try SignedMessage(receipt.encoded).certificates.filter(\.isSelfIssued).map(\.der)
    guard !embedded.isEmpty, let roots = TrustedRoots(ders: embedded) else { return }
    #expect(throws: NotAuthentic.intermediateNotAppStore) {
      try ReceiptVerifier(roots: roots).verify(receipt, now: Self.now)
    }
  }

  @Test(arguments: ReceiptFixtures.listed("transaction_receipt"))
  func `an iOS 6-style receipt is decoded, and never called authentic`(entry: ReceiptFixtures.Case) throws {
    let contents = try ReceiptFixtures.contents(entry.file)
    guard case .transaction(let receipt) = try SubmittedReceipt.decode(contents: contents).content else {
      Issue.record("not recognised")
      return
    }
    let expect = try entry.expect()
    let blob = try #require(expect["signature_blob"] as? [String: Any])
    #expect(receipt.bundleID.rawValue == expect["bid"] as? String)
    #expect(receipt.productID.rawValue == expect["product_id"] as? String)
    #expect(receipt.transactionID.rawValue == expect["transaction_id"] as? String)
    #expect(receipt.originalTransactionID?.rawValue == expect["original_transaction_id"] as? String)
    #expect(receipt.claimedEnvironment == expect["environment_key"] as? String)
    #expect(
      receipt.purchaseDate.map { String(Int($0.timeIntervalSince1970 * 1_000)) } == expect["purchase_date_ms"]
        as? String)
    #expect(
      receipt.expiresDate.map { String(Int($0.timeIntervalSince1970 * 1_000)) } == expect["expires_date_ms"] as? String)
    #expect(receipt.signatureMatchesEmbeddedCertificate == blob["signature_ok"] as? Bool)
    #expect(receipt.signer?.commonName == "PurchaseReceiptCertificate")
    #expect(ReceiptInspection(of: contents, now: Self.now).outcome == .notAuthentic)
  }
}
