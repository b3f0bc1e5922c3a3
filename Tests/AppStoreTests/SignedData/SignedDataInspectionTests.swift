import Foundation
import Testing

@testable import AppStore

@Suite("Inspection of signed data")
struct SignedDataInspectionTests {
  private let pki: SignedDataPKI

  init() throws { pki = try SignedDataPKI() }

  private typealias Sample = SignedSample

  private func inspect(_ text: String, _ pki: SignedDataPKI) throws -> ReceiptInspection {
    try ReceiptInspection(of: Array(text.utf8), roots: pki.roots(), now: Sample.now)
  }

  private func object(_ inspection: ReceiptInspection) throws -> [String: Any] {
    try #require(try JSONSerialization.jsonObject(with: Data(inspection.json().utf8)) as? [String: Any])
  }

  private func json(_ object: [String: Any]) throws -> String {
    String(
      decoding: try JSONSerialization.data(withJSONObject: object, options: [.withoutEscapingSlashes]), as: UTF8.self)
  }

  @Test func `an authentic transaction is reported in full`() throws {
    let jws = try pki.sign(Sample.transaction(["appAccountToken": "ABC", "isUpgraded": true]))
    let inspection = try inspect(jws + "\n", pki)
    #expect(inspection.outcome == .authentic)
    let report = try object(inspection)
    #expect(report["kind"] as? String == "signed_transaction")
    #expect(report["authentic"] as? Bool == true)
    #expect(report["problem"] is NSNull)
    #expect(report["bundle_id"] as? String == "com.example.app")
    #expect(report["environment"] as? String == "production")
    #expect(report["created_at"] as? String == "2024-06-15T12:00:00Z")
    #expect(report["sha256"] as? String == ReceiptFingerprint(of: Array(jws.utf8)).hex)
    #expect((report["signer"] as? [String: Any])?["subject"] as? String == "CN=Signing")
    let row = try #require((report["transactions"] as? [[String: Any]])?.first)
    #expect(row["product_id"] as? String == "com.example.app.pro.monthly")
    #expect(row["expires_date"] as? String == "2024-07-14T10:00:00Z")
    #expect(row["type"] as? String == "Auto-Renewable Subscription")
    #expect(row["signed_date"] as? String == "2024-06-15T12:00:00Z")
    #expect(row["app_account_token"] as? String == "abc")
    #expect(row["is_upgraded"] as? Bool == true)
    #expect(row["ownership"] as? String == "purchased")
    #expect(inspection.text().hasPrefix("AUTHENTIC"))
    #expect(inspection.text().contains("upgraded"))
  }

  @Test func `a transaction that names no store, as in 2021, is authentic, and so is an answer that names it`() throws {
    let transaction = try pki.sign(Sample.transaction(["environment": NSNull()]))
    let alone = try inspect(transaction, pki)
    #expect(alone.outcome == .authentic)
    #expect(alone.report.environment == nil)
    let renewal = try pki.sign(Sample.renewalInfo(["environment": NSNull()]))
    let answer = try inspect(
      json([
        "environment": "Sandbox", "bundleId": "com.example.app",
        "data": [
          [
            "subscriptionGroupIdentifier": "21000001",
            "lastTransactions": [
              [
                "originalTransactionId": "2000000000000001", "status": 1, "signedTransactionInfo": transaction,
                "signedRenewalInfo": renewal,
              ]
            ],
          ]
        ],
      ]), pki)
    #expect(answer.outcome == .authentic)
    #expect(answer.report.environment == "sandbox")
  }

  @Test func `every report has the same keys, and so has every row`() throws {
    let reports = try [
      inspect(pki.sign(Sample.transaction()), pki), inspect(pki.sign(Sample.renewalInfo()), pki),
      inspect(pki.sign(Sample.notification()), pki), inspect("", pki), inspect(#"{"errorCode":1}"#, pki),
    ].map(object)
    for report in reports { #expect(Set(report.keys) == Set(reports[0].keys)) }
    let receipt = try object(
      ReceiptInspection(of: TestReceipt(TestPKI()).bytes(), roots: TestPKI().roots(), now: Sample.now))
    let rows = [receipt, reports[0]].compactMap { ($0["transactions"] as? [[String: Any]])?.first?.keys }
    #expect(rows.count == 2 && Set(rows[0]) == Set(rows[1]))
  }

  @Test func `data that is not authentic is decoded all the same`() throws {
    let forger = try SignedDataPKI(rootKey: SignedDataPKI.Keys.otherRoot)
    let inspection = try inspect(forger.sign(Sample.transaction()), pki)
    #expect(inspection.outcome == .notAuthentic)
    #expect(inspection.report.problem == NotAuthentic.untrustedRoot.description)
    #expect(inspection.report.transactions.count == 1)
    #expect(inspection.report.signer?.subject == "CN=Signing")
    let xcode = try inspect(pki.sign(Sample.transaction(["environment": "Xcode"])), pki)
    #expect(xcode.outcome == .notAuthentic)
    #expect(xcode.report.environment == "xcode")
    #expect(xcode.report.problem == NotAuthentic.xcode.description)
  }

  @Test func `a renewal info tells what happens next`() throws {
    let inspection = try inspect(
      pki.sign(Sample.renewalInfo(["gracePeriodExpiresDate": 1_721_000_000_000, "autoRenewStatus": 0])), pki)
    #expect(inspection.outcome == .authentic)
    let report = try object(inspection)
    #expect(report["kind"] as? String == "signed_renewal_info")
    let renewal = try #require((report["renewals"] as? [[String: Any]])?.first)
    #expect(renewal["will_renew"] as? Bool == false)
    #expect(renewal["auto_renew_product_id"] as? String == "com.example.app.pro.yearly")
    #expect(renewal["renewal_date"] as? String == "2024-07-14T10:00:00Z")
    #expect(renewal["grace_period_expires_date"] as? String == "2024-07-14T23:33:20Z")
    #expect(renewal["expiration_intent"] is NSNull)
    #expect(inspection.text().contains("does not renew  as com.example.app.pro.yearly  on 2024-07-14T10:00:00Z"))
  }

  @Test func `a notification is the same bare and as it is posted`() throws {
    let jws = try pki.sign(
      Sample.notification(transaction: pki.sign(Sample.transaction()), renewalInfo: pki.sign(Sample.renewalInfo())))
    let posted = try inspect(json(["signedPayload": jws]), pki)
    #expect(try posted.json() == inspect(jws, pki).json())
    #expect(posted.outcome == .authentic)
    let report = try object(posted)
    #expect(report["kind"] as? String == "signed_notification")
    #expect(report["type"] as? String == "DID_RENEW")
    #expect(report["subtype"] as? String == "BILLING_RECOVERY")
    #expect(report["uuid"] as? String == "76f20213-87fe-5260-9d8a-34148d8e4312")
    #expect(report["status"] as? Int == 1)
    #expect(report["app_apple_id"] as? Int == 1_234_567_890)
    #expect((report["transactions"] as? [Any])?.count == 1)
    #expect((report["renewals"] as? [Any])?.count == 1)
    #expect(report["created_at"] as? String == "2024-06-15T12:00:05Z")
    #expect(posted.text().contains("DID_RENEW"))
  }

  @Test func `a notification with a forged part is not authentic`() throws {
    let forger = try SignedDataPKI(rootKey: SignedDataPKI.Keys.otherRoot)
    let inspection = try inspect(
      pki.sign(Sample.notification(transaction: forger.sign(Sample.transaction()))), pki)
    #expect(inspection.outcome == .notAuthentic)
    #expect(inspection.report.transactions.count == 1)
    let broken = try inspect(pki.sign(Sample.notification(transaction: "text")), pki)
    #expect(broken.outcome == .notAuthentic)
    #expect(broken.report.problem != nil)
    let cut = try inspect(#"{"signedPayload":"text"}"#, pki)
    #expect(cut.outcome == .undecodable)
    #expect(cut.report.kind == "signed_notification")
  }

  @Test func `an answer of the Server API is authentic when all that is signed in it is`() throws {
    let forger = try SignedDataPKI(rootKey: SignedDataPKI.Keys.otherRoot)
    let transaction = try pki.sign(Sample.transaction())
    let second = try pki.sign(Sample.transaction(["transactionId": "3"]))
    let renewalInfo = try pki.sign(Sample.renewalInfo())
    let forged = try forger.sign(Sample.transaction())
    func statuses(_ transactions: [String], of id: String = "2000000000000001") -> [String: Any] {
      [
        "environment": "Production", "bundleId": "com.example.app", "appAppleId": 1_234_567_890,
        "data": transactions.map { transaction -> [String: Any] in
          [
            "subscriptionGroupIdentifier": "21000001",
            "lastTransactions": [
              [
                "originalTransactionId": id, "status": 4, "signedTransactionInfo": transaction,
                "signedRenewalInfo": renewalInfo,
              ]
            ],
          ]
        },
      ]
    }
    let both = try inspect(json(statuses([transaction, second])), pki)
    #expect(both.outcome == .authentic)
    #expect(both.report.kind == "subscription_statuses")
    #expect(both.report.transactions.map(\.transactionID) == ["2000000000000002", "3"])
    #expect(both.report.transactions.map(\.status) == [4, 4])
    #expect(both.report.renewals.count == 2)
    #expect(both.report.appAppleID == 1_234_567_890)
    #expect(both.report.createdAt == "2024-06-15T12:00:00Z")

    let one = try inspect(json(statuses([transaction, forged])), pki)
    #expect(one.outcome == .notAuthentic)
    #expect(one.report.problem?.contains("data[1].lastTransactions[0].signedTransactionInfo") == true)
    #expect(one.report.transactions.count == 2)
    #expect(try inspect(json(statuses([])), pki).outcome == .notAuthentic)
    let other = try pki.sign(Sample.transaction(["bundleId": "com.example.other"]))
    #expect(try inspect(json(statuses([other])), pki).report.problem?.contains("another app") == true)
    let sandbox = try pki.sign(Sample.transaction(["environment": "Sandbox"]))
    #expect(try inspect(json(statuses([sandbox])), pki).report.problem?.contains("another store") == true)
    let misnamed = try inspect(json(statuses([transaction], of: "1")), pki)
    #expect(misnamed.outcome == .notAuthentic)
    #expect(misnamed.report.problem?.contains("signedTransactionInfo is of another purchase") == true)
    let foreign = try pki.sign(Sample.renewalInfo(["originalTransactionId": "1"]))
    let mixed: [String: Any] = [
      "data": [
        [
          "lastTransactions": [
            [
              "originalTransactionId": "2000000000000001", "signedTransactionInfo": transaction,
              "signedRenewalInfo": foreign,
            ]
          ]
        ]
      ]
    ]
    #expect(
      try inspect(json(mixed), pki).report.problem?.contains("signedRenewalInfo is of another purchase") == true)

    let history: [String: Any] = [
      "revision": "r", "hasMore": false, "bundleId": "com.example.app", "environment": "Production",
      "signedTransactions": [transaction, second],
    ]
    let page = try inspect(json(history), pki)
    #expect(page.outcome == .authentic)
    #expect(page.report.kind == "transaction_history")
    #expect(page.report.transactions.count == 2)
    #expect(try inspect(json(["status": 0, "signedTransactions": [transaction]]), pki).report.kind == "order_lookup")
    let info = try inspect(json(["signedTransactionInfo": transaction]), pki)
    #expect(info.outcome == .authentic)
    #expect(info.report.kind == "transaction_info")
    #expect(info.report.bundleID == "com.example.app")
    #expect(try inspect(json(["signedTransactionInfo": "signed_transaction"]), pki).outcome == .notAuthentic)
    #expect(try inspect(json(["signedTransactionInfo": 1]), pki).outcome == .notAuthentic)
  }

  @Test func `an error of the Server API is told as one`() throws {
    let inspection = try inspect(#"{"errorCode":4040010,"errorMessage":"Transaction id not found."}"#, pki)
    #expect(inspection.outcome == .notAuthentic)
    let report = try object(inspection)
    #expect(report["kind"] as? String == "server_api_error")
    #expect(report["error_code"] as? Int == 4_040_010)
    #expect(report["error_message"] as? String == "Transaction id not found.")
    #expect(inspection.text().contains("4040010"))
  }

  @Test func `a notification of version 1 is told, and its secret and receipts are not`() throws {
    let row: [String: Any] = [
      "product_id": "pro", "transaction_id": "1", "original_transaction_id": "1", "expires_date_ms": "1720951200000",
    ]
    let notification: [String: Any] = [
      "notification_type": "DID_RENEW", "environment": "PROD", "password": "CANARY-SECRET", "bid": "com.example.app",
      "latest_receipt": "CANARY-RECEIPT",
      "unified_receipt": [
        "status": 0, "environment": "Production", "latest_receipt": "CANARY-RECEIPT",
        "latest_receipt_info": [row, row],
        "pending_renewal_info": [
          ["original_transaction_id": "1", "product_id": "pro", "auto_renew_status": "1"]
        ],
      ],
    ]
    let inspection = try inspect(json(notification), pki)
    #expect(inspection.outcome == .notAuthentic)
    #expect(inspection.report.kind == "notification_v1")
    #expect(inspection.report.type == "DID_RENEW")
    #expect(inspection.report.bundleID == "com.example.app")
    #expect(inspection.report.environment == "production")
    #expect(inspection.report.transactions.count == 2)
    #expect(inspection.report.renewals.map(\.willRenew) == [true])
    #expect(inspection.report.problem?.contains("not signed") == true)
    for text in [inspection.json(), inspection.text()] { #expect(!text.contains("CANARY")) }

    var broken = notification
    broken["unified_receipt"] = ["latest_receipt_info": [["product_id": "pro"]]]
    #expect(try inspect(json(broken), pki).report.problem?.contains("latest_receipt_info[0].transaction_id") == true)
    let older: [String: Any] = [
      "notification_type": "CANCEL", "latest_receipt_info": row, "auto_renew_status": "false",
      "auto_renew_product_id": "pro.yearly",
    ]
    let old = try inspect(json(older), pki).report
    #expect(old.transactions.count == 1)
    #expect(old.renewals.map(\.willRenew) == [false])
    #expect(old.renewals.map(\.autoRenewProductID) == ["pro.yearly"])
    #expect(old.renewals.map(\.originalTransactionID) == ["1"])
  }

  @Test func `a decoded payload is named as such`() throws {
    for (payload, kind) in [
      (Sample.transaction(), "decoded_transaction"), (Sample.renewalInfo(), "decoded_renewal_info"),
      (Sample.notification(), "decoded_notification"), (["transactionId": "1"], "decoded_transaction"),
      (["receiptType": "Sandbox", "bundleId": "a"], "decoded_app_transaction"),
    ] {
      let inspection = try inspect(json(payload), pki)
      #expect(inspection.outcome == .notAuthentic)
      #expect(inspection.report.kind == kind)
      #expect(inspection.report.problem?.contains("without its signature") == true)
    }
    #expect(try inspect(json(Sample.transaction()), pki).report.transactions.count == 1)
  }

  @Test func `other JSON stays undecodable`() throws {
    for text in [
      #"{"status":0,"receipt":{"bundle_id":"com.example.app"}}"#, "{}", #"{"signedPayload":"a","signedPayload":"b"}"#,
      "{", #"{"data":[]}"#,
    ] {
      #expect(try inspect(text, pki).outcome == .undecodable, "\(text)")
    }
  }

  @Test func `signed data of a kind that is not known is checked like any other`() throws {
    let payload: [String: Any] = [
      "bundleId": "com.example.app", "environment": "Sandbox", "signedDate": Sample.signedDate,
    ]
    let known = try inspect(pki.sign(payload), pki)
    #expect(known.outcome == .authentic)
    #expect(known.report.kind == "signed_data")
    #expect(known.report.environment == "sandbox")
    let forger = try SignedDataPKI(rootKey: SignedDataPKI.Keys.otherRoot)
    #expect(try inspect(forger.sign(payload), pki).report.problem == NotAuthentic.untrustedRoot.description)
    #expect(try inspect(pki.sign(["bundleId": "a"]), pki).report.problem?.contains("when it was signed") == true)
    let download: [String: Any] = [
      "receiptType": "Production", "bundleId": "com.example.app", "receiptCreationDate": Sample.signedDate,
    ]
    let app = try inspect(pki.sign(download), pki)
    #expect(app.outcome == .authentic)
    #expect(app.report.kind == "signed_app_transaction")
    #expect(app.report.environment == "production")
  }
}
