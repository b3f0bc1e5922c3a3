import Foundation
import HTTPTransport
import HTTPTypes
import HummingbirdCore
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer
@testable import Entitlements

/// `POST /v1/validate` as cordova-plugin-purchase asks and reads.
@Suite struct CordovaTests {
  static let cases: [(Scenario, purchases: [String])] = [
    (.renewing, ["pro.monthly 2024-07-01T12:00:00Z running Renew"]),
    (.trial, ["pro.monthly 2024-06-20T12:00:00Z running Renew isTrialPeriod"]),
    (.renewalOff, ["pro.monthly 2024-06-30T12:00:00Z running Lapse Customer"]),
    (.grace, ["pro.monthly 2024-06-28T12:00:00Z running Renew isBillingRetryPeriod"]),
    (.billingRetry, ["pro.monthly 2024-08-11T12:00:00Z running Renew isBillingRetryPeriod"]),
    (.expiredVoluntary, ["pro.monthly 2024-05-16T12:00:00Z expired Lapse Customer"]),
    (.expiredBillingError, ["pro.monthly 2024-03-17T12:00:00Z expired Lapse System.BillingError"]),
    (.refunded, ["premium.monthly 2024-06-14T12:00:00Z expired Lapse Customer.TechnicalIssues"]),
    (.lifetime, ["forever for life running -"]),
    (.lifetimeRefunded, ["forever 2024-06-14T12:00:00Z expired - Customer.TechnicalIssues"]),
    (
      .twoGroups,
      [
        "premium.monthly 2024-07-10T12:00:00Z running Renew", "pro.monthly 2024-07-05T12:00:00Z running Renew",
      ]
    ),
    (.empty, []),
  ]

  @Test func `the answer to a receipt has its purchases`() async throws {
    try await DialectBench.run { service, store in
      for (number, (scenario, purchases)) in Self.cases.enumerated() {
        let receipt = try store.simulator.issueReceipt(scenario, subscriber: Int64(number + 1)).receiptData
        let answer = try await service.cordova(try DialectBench.cordova(receipt: receipt, user: "user-\(number)"))
        #expect(answer.status == 200)
        #expect(answer["ok"] == "true")
        #expect(answer.purchases.sorted() == purchases, "\(scenario): \(answer.text)")
      }
    }
  }

  @Test func `a purchase that Apple's answer does not have yet is asked again, and an app without one is not`()
    async throws
  {
    try await DialectBench.run { service, store in
      let receipt = try store.simulator.issueReceipt(.empty).receiptData
      let product = "com.example.app.pro.monthly"
      for (id, type, transaction, isPurchase) in [
        ("com.example.app", "application", "2000000123456789", true), (product, "paid subscription", "2", true),
        (product, "non consumable", "", true), ("com.example.app", "application", "appstore.application", false),
        ("com.example.app", "application", "com.example.app", false), ("com.example.app", "application", "", false),
      ] {
        let body = try DialectBench.cordova(
          id: id, ["type": "ios-appstore", "id": transaction, "appStoreReceipt": receipt], user: "user-1"
        ).replacing(#""type":"application""#, with: #""type":"\#(type)""#)
        let answer = try await service.cordova(body)
        #expect(answer["ok"] == (isPurchase ? "false" : "true"), "\(id) \(type) \(transaction) \(answer.text)")
        #expect(answer.status == (isPurchase ? 503 : 200))
        #expect(answer["code"] == (isPurchase ? "6777014" : nil))
      }
      #expect(try await service.profile().verdict == "free active no_purchases")
    }
  }

  @Test func `a purchase that Apple's answer lacks is asked again where nothing else gives access`() async throws {
    try await DialectBench.run { service, store in
      for (number, (scenario, status)) in [(Scenario.expiredVoluntary, 503), (.renewing, 200)].enumerated() {
        let receipt = try store.simulator.issueReceipt(scenario, subscriber: Int64(number + 1)).receiptData
        let body = try DialectBench.cordova(
          id: "com.example.app", ["type": "ios-appstore", "id": "2000000123456789", "appStoreReceipt": receipt],
          user: "user-\(number)")
        #expect(try await service.cordova(body).status == status)
      }
    }
  }

  @Test func `a success has every member that the plugin reads`() async throws {
    try await DialectBench.run { service, store in
      let signed = try store.simulator.issueTransaction(.trial)
      let answer = try await service.cordova(try DialectBench.cordova(jws: signed.signedTransaction))
      let data = try #require(answer.object["data"] as? [String: Any])
      #expect(data["id"] as? String == "com.example.app.pro.monthly")
      #expect(data["latest_receipt"] as? Bool == true)
      #expect((data["transaction"] as? [String: Any])?["type"] as? String == "apple-sk2")
      #expect(data["date"] as? String == "2024-06-15T12:00:00Z")
      let item = try #require(answer.collection.first)
      #expect(
        Set(item.keys) == [
          "id", "platform", "purchaseId", "transactionId", "purchaseDate", "lastRenewalDate", "expiryDate", "isExpired",
          "renewalIntent", "isBillingRetryPeriod", "isTrialPeriod", "isIntroPeriod", "cancelationReason",
        ])
      #expect(item["platform"] as? String == "ios-appstore")
      #expect(item["purchaseId"] as? String == signed.originalTransactionID)
      #expect(item["expiryDate"] as? Int == 1_718_884_800_000)
      // The verdict is the user's, as everywhere.
      #expect(try await service.profile().verdict == "pro active renewing")
    }
  }

  @Test func `a purchase that was upgraded is replaced`() async throws {
    try await DialectBench.run { service, store in
      let receipt = try store.simulator.issueReceipt(.upgraded)
      let answer = try await service.cordova(try DialectBench.cordova(receipt: receipt.receiptData))
      #expect(answer.purchases.contains("premium.monthly 2024-07-10T12:00:00Z running Renew"), "\(answer.text)")
      #expect(answer.collection.filter { $0["isExpired"] as? Bool == false }.count == 1, "\(answer.text)")
    }
  }

  @Test func `the user is the token's, and else the one who is named`() async throws {
    try await DialectBench.run { service, store in
      func jws(_ subscriber: Int64) throws -> String {
        try store.simulator.issueTransaction(.renewing, subscriber: subscriber).signedTransaction
      }
      // A claim of the app's beside a token counts for nothing.
      let own = try await service.cordova(
        try DialectBench.cordova(jws: try jws(1), user: "mallory"), key: try DialectBench.token())
      #expect(own["ok"] == "true")
      #expect(try await service.profile(DialectBench.user).verdict == "pro active renewing")
      #expect(try await service.profile("mallory").verdict == "free active no_purchases")
      for (number, key) in [RunningService.publicKey, RunningService.serviceKey].enumerated() {
        let named = try await service.cordova(
          try DialectBench.cordova(jws: try jws(Int64(number + 2)), user: "user-\(number)"), key: key)
        #expect(named["ok"] == "true", "\(named.text)")
        #expect(try await service.profile("user-\(number)").verdict == "pro active renewing")
        let unnamed = try await service.cordova(try DialectBench.cordova(jws: try jws(9), user: nil), key: key)
        Self.expectRefusal(unnamed, 6_777_005)
      }
    }
  }

  @Test func `other callers are refused in the plugin's words`() async throws {
    try await DialectBench.run { service, store in
      let body = try DialectBench.cordova(jws: try store.simulator.issueTransaction().signedTransaction)
      for key in [nil, "appl_nobodys-key-of-tests", "a.b.c", RunningService.supportKey] {
        Self.expectRefusal(try await service.cordova(body, key: key), 6_777_005)
      }
      #expect(try await service.profile().verdict == "free active no_purchases")
    }
  }

  @Test func `a fault of the purchase is a refusal, which the plugin keeps`() async throws {
    try await DialectBench.run { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt, user: "first").status == 200)
      let refused = [
        try DialectBench.cordova(receipt: receipt, user: "second"),
        try DialectBench.cordova(receipt: try store.simulator.issueReceipt(.wrongApp, subscriber: 2).receiptData),
        try DialectBench.cordova(receipt: "bm8gcmVjZWlwdA=="),
        try DialectBench.cordova(receipt: receipt, user: "no such user"),
        try DialectBench.cordova(id: "p", ["type": "ios-appstore"], user: "u"),
        try DialectBench.cordova(id: "p", ["type": "apple-sk2"], user: "u"),
        try DialectBench.cordova(id: "p", ["type": "android-playstore", "purchaseToken": "t"], user: "u"),
        "{", "{}", "[]",
      ]
      for body in refused { Self.expectRefusal(try await service.cordova(body), 6_777_017) }
    }
  }

  @Test func `while Apple is away what is signed counts, and what is not is asked again`() async throws {
    let settings = DialectBench.settings(appStore: ["deadline": "4s"], policy: ["provisional": "24h"])
    try await DialectBench.run(settings) { service, store in
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      let granted = try await service.cordova(try DialectBench.cordova(receipt: receipt))
      #expect(granted.status == 200)
      #expect(granted.purchases == ["pro.monthly 2024-06-16T12:00:00Z running -"], "\(granted.text)")
      let old = try store.simulator.issueReceipt(.renewing, subscriber: 2, format: .ios6).receiptData
      let kept = try await service.cordova(try DialectBench.cordova(receipt: old, user: "user-2"))
      #expect(kept.status == 503)
      #expect(kept["ok"] == "false")
    }
  }

  @Test func `a web view of any origin may ask`() async throws {
    try await DialectBench.run { service, _ in
      let preflight = try await service.exchange(
        "OPTIONS /v1/validate HTTP/1.1\r\nHost: a\r\nOrigin: app://localhost\r\nConnection: close\r\n"
          + "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n\r\n")
      #expect(preflight.hasPrefix("HTTP/1.1 204 "), "\(preflight)")
      #expect(preflight.lowercased().contains("access-control-allow-headers: authorization"))
      let answer = try await service.cordova("{}", key: nil)
      #expect(answer.header("Access-Control-Allow-Origin") == "*")
      #expect(try await service.profile().header("Access-Control-Allow-Origin") == nil)
      let other = try await service.exchange(
        "GET /v1/validate HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
          + "Authorization: Bearer \(RunningService.serviceKey)\r\n\r\n")
      #expect(other.hasPrefix("HTTP/1.1 405 "))
      #expect(other.lowercased().contains("allow: post"))
    }
  }

  private static func expectRefusal(
    _ answer: Answer, _ code: Int, sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(answer.status == 200, "\(answer.text)", sourceLocation: sourceLocation)
    #expect(answer["ok"] == "false", "\(answer.text)", sourceLocation: sourceLocation)
    #expect(answer["code"] == "\(code)", "\(answer.text)", sourceLocation: sourceLocation)
    #expect(answer["message"]?.isEmpty == false, sourceLocation: sourceLocation)
  }

  @Test(arguments: Problem.Code.allCases)
  func `no problem is told in another shape or at a status that would be kept wrongly`(code: Problem.Code) {
    let response = CordovaController.errors.response(Problem(code, "why"), "/v1/validate", "id")
    let passes = code.isRetryable
    #expect((response.status.kind == .serverError) == passes)
    if !passes, code != .methodNotAllowed { #expect(response.status == .ok) }
  }
}
