import Cryptography
import Entitlements
import Foundation
import Testing

@testable import AppStore

/// Over signed data that Apple, Apple's library, Xcode and others made; skipped where their folder is not.
@Suite(
  "Recorded signed data",
  .enabled(if: ReceiptFixtures.areThere, "the folder of recorded signed data is not there; set COUNTERSIGN_FIXTURES"))
struct SignedDataFixtureTests {
  private static let now = Date(timeIntervalSince1970: 1_795_000_000)

  private func text(_ file: String) throws -> String {
    let text = String(decoding: try ReceiptFixtures.bytes(file), as: UTF8.self)
    guard text.hasPrefix("{") else { return text }
    let body = try JSONSerialization.jsonObject(with: Data(text.utf8)) as? [String: Any]
    return try #require(body?["signedPayload"] as? String)
  }

  /// Compares what was read with a payload, member by member.
  private func expect(_ transaction: SignedTransaction, _ payload: [String: Any]) {
    func text(_ key: String) -> String? { payload[key] as? String }
    func date(_ key: String) -> Date? {
      (payload[key] as? NSNumber).map { Date(timeIntervalSince1970: $0.doubleValue.rounded(.down) / 1_000) }
    }
    let row = transaction.purchase
    #expect(row.transactionID.rawValue == text("transactionId"))
    #expect(row.originalTransactionID.rawValue == text("originalTransactionId"))
    #expect(row.webOrderLineItemID == text("webOrderLineItemId"))
    #expect(row.productID.rawValue == text("productId"))
    #expect(row.subscriptionGroupID?.rawValue == text("subscriptionGroupIdentifier"))
    #expect(row.purchaseDate == date("purchaseDate"))
    #expect(row.expiresDate == date("expiresDate"))
    #expect(row.cancellationDate == date("revocationDate"))
    #expect(row.appAccountToken == text("appAccountToken")?.lowercased())
    #expect(row.reportedAt == date("signedDate"))
    #expect(transaction.bundleID.rawValue == text("bundleId"))
    #expect(transaction.environmentName == text("environment"))
    #expect(transaction.productType == text("type"))
    #expect((row.ownership == .familyShared) == (text("inAppOwnershipType") == "FAMILY_SHARED"))
    #expect(transaction.originalPurchaseDate == date("originalPurchaseDate"))
    #expect(transaction.quantity == (payload["quantity"] as? NSNumber)?.int64Value)
    #expect(row.sale?.offerType == payload["offerType"] as? Int)
  }

  private func expect(_ info: SignedRenewalInfo, _ payload: [String: Any]) {
    func date(_ key: String) -> Date? {
      (payload[key] as? NSNumber).map { Date(timeIntervalSince1970: $0.doubleValue / 1_000) }
    }
    #expect(info.originalTransactionID.rawValue == payload["originalTransactionId"] as? String)
    #expect(info.renewal.productID?.rawValue == payload["productId"] as? String)
    #expect(info.renewal.autoRenewProductID?.rawValue == payload["autoRenewProductId"] as? String)
    #expect(info.renewal.autoRenews == (payload["autoRenewStatus"] as? Int).map { $0 == 1 })
    #expect(info.renewal.isInBillingRetry == payload["isInBillingRetryPeriod"] as? Bool)
    #expect(info.renewal.gracePeriodExpiresDate == date("gracePeriodExpiresDate"))
    #expect(info.renewal.expirationIntent == payload["expirationIntent"] as? Int)
    #expect(info.renewal.periodEnd == date("renewalDate"))
    #expect(info.signedDate == date("signedDate"))
    #expect(info.environmentName == payload["environment"] as? String)
  }

  /// The leaf: `[first day, last day, serial number]`.
  private func expect(_ signer: ReceiptSigner, _ signature: [String: Any]) throws {
    #expect(signature["sig"] as? Bool == true)
    #expect(signature["valid_at"] as? Bool != false)
    let leaf = try #require(signature["leaf"] as? [String])
    #expect(signer.notBefore.map { String(ReceiptDate.format($0).prefix(10)) } == leaf[0])
    #expect(signer.notAfter.map { String(ReceiptDate.format($0).prefix(10)) } == leaf[1])
    #expect(signer.serialNumber == leaf[2])
  }

  @Test(arguments: ReceiptFixtures.listed("jws_transaction"))
  func `a transaction that Apple signed is proven and read`(entry: ReceiptFixtures.Case) throws {
    let expectation = try entry.expect()
    let verified = try SignedDataVerifier().transaction(text(entry.file), now: Self.now)
    expect(verified.payload, try #require(expectation["payload"] as? [String: Any]))
    try expect(verified.signer, try #require(expectation["jws"] as? [String: Any]))
    #expect(verified.history()?.purchases.count == 1)
  }

  @Test(arguments: ReceiptFixtures.listed("jws_renewal_info"))
  func `a renewal info that Apple signed is proven and read`(entry: ReceiptFixtures.Case) throws {
    let expectation = try entry.expect()
    let verified = try SignedDataVerifier().renewalInfo(text(entry.file), now: Self.now)
    expect(verified.payload, try #require(expectation["payload"] as? [String: Any]))
    try expect(verified.signer, try #require(expectation["jws"] as? [String: Any]))
  }

  @Test(arguments: ReceiptFixtures.listed("notification_v2"))
  func `a notification that Apple signed is proven and read, with all that it carries`(
    entry: ReceiptFixtures.Case
  ) throws {
    let expectation = try entry.expect()
    let verified = try SignedDataVerifier().notification(text(entry.file), now: Self.now)
    let payload = try #require((expectation["payload"] ?? expectation["notification"]) as? [String: Any])
    let data = try #require((expectation["data"] ?? payload["data"]) as? [String: Any])
    let notification = verified.notification
    #expect(notification.type == payload["notificationType"] as? String)
    #expect(notification.subtype == payload["subtype"] as? String)
    #expect(notification.uuid == payload["notificationUUID"] as? String)
    #expect(notification.bundleID?.rawValue == data["bundleId"] as? String)
    #expect(notification.environmentName == data["environment"] as? String)
    #expect(notification.appAppleID == (data["appAppleId"] as? NSNumber)?.int64Value)
    #expect(notification.status == data["status"] as? Int)
    try expect(verified.signer, try #require(expectation["outer"] as? [String: Any]))

    #expect((verified.transaction != nil) == (expectation["transactionInfo"] is [String: Any]))
    if let transaction = verified.transaction {
      expect(transaction.payload, try #require(expectation["transactionInfo"] as? [String: Any]))
      try expect(transaction.signer, try #require(expectation["transaction"] as? [String: Any]))
    }
    #expect((verified.renewalInfo != nil) == (expectation["renewalInfo"] is [String: Any]))
    if let info = verified.renewalInfo {
      expect(info.payload, try #require(expectation["renewalInfo"] as? [String: Any]))
      try expect(info.signer, try #require(expectation["renewal"] as? [String: Any]))
    }
    #expect((verified.history() != nil) == (verified.transaction != nil))
  }

  @Test(arguments: ReceiptFixtures.listed("own_pki_notification_v2"))
  func `a notification under a configured root is proven under it and nowhere else`(entry: ReceiptFixtures.Case) throws
  {
    let path = ReceiptFixtures.folder.appending(path: "own-pki/fixture-root-ec.der").path()
    let jws = try text(entry.file)
    let verifier = SignedDataVerifier(roots: try TrustedRoots(files: [path]))
    let verified = try verifier.notification(jws, now: Self.now)
    let expectation = try entry.expect()
    // The status itself is what the rules make of it; `status_code` is what Apple would have told.
    if let status = verified.notification.status { #expect(status == expectation["status_code"] as? Int) }
    let history = try #require(verified.history())
    #expect(history.environment == .production)
    #expect(ReceiptDate.format(history.evidenceTime) == expectation["clock"] as? String)
    #expect(verifier.chains.counts == (1, 1))
    #expect(throws: SignedDataError.notAuthentic(.untrustedRoot)) {
      try SignedDataVerifier().notification(jws, now: Self.now)
    }
  }

  @Test(arguments: ReceiptFixtures.listed("jws_or_mock"))
  func `data signed by Apple's library or by Xcode is not Apple's word`(entry: ReceiptFixtures.Case) throws {
    let bytes = Array(try text(entry.file).utf8)
    let jws = try CompactJWS(Array(ReceiptText.trimmed(bytes)))
    let expectation = try entry.expect()
    let signature = try #require(expectation["jws"] as? [String: Any])
    #expect(jws.header.certificates.count == signature["n_x5c"] as? Int)
    let header = try #require(expectation["header"] as? [String: Any])
    #expect(jws.header.algorithm == header["alg"] as? String)
    #expect(jws.header.keyID == header["kid"] as? String)
    // The signature itself is sound: the chain is what is wrong.
    let leaf = jws.header.certificates.first.flatMap { Data(base64Encoded: $0) }
    let key = try #require(leaf.flatMap { Certificate(der: $0) }.flatMap { ES256PublicKey(of: $0) })
    #expect(key.hasMade(jws.signature, over: jws.signed) == (signature["sig"] as? Bool))

    let inspection = ReceiptInspection(of: bytes, now: Self.now)
    #expect(inspection.outcome == .notAuthentic)
    let payload = try #require(expectation["payload"] as? [String: Any])
    let isXcode = payload["environment"] as? String == "Xcode"
    #expect(
      inspection.report.problem
        == (isXcode ? NotAuthentic.xcode : signature["n_x5c"] as? Int == 3 ? .signerNotForReceipts : nil)?.description
        || inspection.report.problem == NotAuthentic.untrustedRoot.description)
    let names = payload["data"] as? [String: Any] ?? payload
    #expect(inspection.report.bundleID == names["bundleId"] as? String)
    #expect(inspection.report.environment == (names["environment"] as? String)?.lowercased())
    if isXcode {
      guard case .transaction(let transaction) = try SignedPayload(jws) else {
        Issue.record("not a transaction")
        return
      }
      expect(transaction, payload)
    }
  }

  @Test(arguments: ReceiptFixtures.listed("generated_fake_pki"))
  func `transactions of a made-up PKI are not Apple's`(entry: ReceiptFixtures.Case) throws {
    guard entry.file.hasSuffix(".jws") else { return }
    let jws = try text(entry.file)
    #expect(throws: SignedDataError.self) { try SignedDataVerifier().transaction(jws, now: Self.now) }
    // Under its own root, which it carries: one of the two lacks the signer's mark.
    let embedded = try CompactJWS(Array(jws.utf8)).header.certificates.last.flatMap { Data(base64Encoded: $0) }
    let roots = try #require(embedded.flatMap { TrustedRoots(ders: [[UInt8]($0)]) })
    let verifier = SignedDataVerifier(roots: roots)
    if entry.id.contains("no-leaf-oid") {
      #expect(throws: SignedDataError.notAuthentic(.signerNotForReceipts)) {
        try verifier.transaction(jws, now: Self.now)
      }
    } else {
      _ = try verifier.transaction(jws, now: Self.now)
    }
  }

  @Test(arguments: ReceiptFixtures.listed("notification_v1"))
  func `a notification of version 1 is told, and counts its rows`(entry: ReceiptFixtures.Case) throws {
    let inspection = try ReceiptInspection(of: ReceiptFixtures.contents(entry.file), now: Self.now)
    let expectation = try entry.expect()
    #expect(inspection.outcome == .notAuthentic)
    let report = inspection.report
    #expect(report.kind == "notification_v1")
    #expect(report.type == expectation["notification_type"] as? String)
    #expect(report.problem?.contains("not signed") == true)
    if let bundleID = expectation["bid"] as? String { #expect(report.bundleID == bundleID) }
    if let rows = expectation["unified_rows"] as? Int { #expect(report.transactions.count == rows) }
    if let pending = expectation["pending"] as? [[String: Any]] {
      #expect(report.renewals.map(\.originalTransactionID) == pending.map { $0["original_transaction_id"] as? String })
    }
    let environment = expectation["environment"] as? String
    #expect(report.environment == (environment == "PROD" ? "production" : environment?.lowercased()))
  }

  @Test(arguments: ReceiptFixtures.listed("apple_model_json"))
  func `a decoded payload or an example of an answer is named as such, and proves nothing`(
    entry: ReceiptFixtures.Case
  ) throws {
    let inspection = try ReceiptInspection(of: ReceiptFixtures.contents(entry.file), now: Self.now)
    #expect(inspection.outcome == .notAuthentic)
    #expect(inspection.report.problem != nil)
    let name = entry.file.split(separator: "/").last.map { $0.lowercased() } ?? ""
    let kind = inspection.report.kind
    switch name {
    case _ where name.contains("notification"): #expect(kind == "decoded_notification")
    case _ where name.contains("renewalinfo"): #expect(kind == "decoded_renewal_info")
    case _ where name.contains("signedtransaction"):
      #expect(kind == "decoded_transaction")
      #expect(inspection.report.transactions.count == 1)
      #expect(inspection.report.environment == "localtesting")
    case _ where name.contains("statuses"): #expect(kind == "subscription_statuses")
    case _ where name.contains("transactioninfo"): #expect(kind == "transaction_info")
    case _ where name.contains("exception") || name.contains("error"):
      #expect(kind == "server_api_error")
      #expect(inspection.report.errorCode != nil)
    default: break
    }
  }
}
