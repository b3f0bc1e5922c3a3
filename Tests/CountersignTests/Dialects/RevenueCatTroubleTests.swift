import CountersignAPI
import Entitlements
import Foundation
import HTTPTransport
import Ledger
import Testing

@testable import AppStoreSimulator

/// RevenueCat's SDK in trouble: it keeps the purchase, unless that itself is wrong.
@Suite struct RevenueCatTroubleTests {
  @Test func `a purchase during an outage is finished where it is granted, and kept where it is not`() async throws {
    try await RevenueCatApp.run { app, store, _, _ async throws in
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      let running = try await app.post(try store.simulator.issueReceipt(.renewing).receiptData)
      #expect(running.status == 200)
      #expect(try RevenueCatApp.info(running).active == ["pro"])
      let over = try await app.post(try store.simulator.issueReceipt(.expiredVoluntary, subscriber: 2).receiptData)
      #expect(over.status == 503 && over["code"] == "7101")
    }
  }

  @Test(arguments: Trouble.allCases)
  func `no trouble of Apple's loses a purchase`(trouble: Trouble) async throws {
    guard trouble.befalls(.verifyReceipt) else { return }
    try await RevenueCatApp.run(["provisional": "0"], deadline: "2s") { app, store, _, _ async throws in
      store.simulator.setTrouble(trouble, count: nil, environment: nil)
      let answer = try await app.post(try store.simulator.issueReceipt(.renewing).receiptData)
      // Apple's own word that the receipt is not authentic is the one that is final.
      if trouble == .status21003, answer.status == 422 {
        #expect(answer["code"] == "7103")
      } else {
        #expect(RevenueCatApp.transaction(after: answer) != .lost, "\(answer.status) \(answer.text)")
      }
    }
  }

  @Test func `what Apple signed and nobody here can read or assign stays in the queue`() async throws {
    try await RevenueCatApp.run { app, _, _, _ async throws in
      let pki = try DevelopmentPKI()
      let moment = Int64(noon.timeIntervalSince1970 * 1_000)
      let seat = try pki.signedData.sign(
        .object([
          ("transactionId", "1"), ("originalTransactionId", "1"), ("bundleId", "com.example.app"),
          ("productId", "com.example.app.pro.monthly"), ("type", "Auto-Renewable Subscription"),
          ("inAppOwnershipType", "ORGANIZATION"), ("environment", "Production"), ("quantity", 1),
          ("purchaseDate", .integer(moment)), ("originalPurchaseDate", .integer(moment)),
          ("expiresDate", .integer(moment + 30 * 86_400_000)), ("signedDate", .integer(moment)),
        ]))
      for token in [seat, try pki.unreadableTransaction(at: noon), try pki.unreadableReceipt(at: noon)] {
        let answer = try await app.post(token)
        #expect(answer["code"] == "7110" && RevenueCatApp.transaction(after: answer) == .kept, "\(answer.text)")
      }
    }
  }

  @Test func `whatever is wrong but the purchase keeps it in the queue`() async throws {
    try await RevenueCatApp.run { app, store, _, _ async throws in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      let body = #"{"app_user_id":"u1","fetch_token":"\#(receipt)"}"#
      let kept: [(String, RevenueCatApp, String, [TransportHeader])] = [
        ("no key", RevenueCatApp(service: app.service, key: nil), body, []),
        ("an unknown key", RevenueCatApp(service: app.service, key: "appl_ofSomebodyElse"), body, []),
        ("a key of support's", RevenueCatApp(service: app.service, key: RunningService.supportKey), body, []),
        ("no JSON", app, "{", []), ("an empty body", app, "", []), ("not an object", app, "[]", []),
        ("no user", app, #"{"fetch_token":"\#(receipt)"}"#, []),
        ("a placeholder for a user", app, #"{"app_user_id":"null","fetch_token":"\#(receipt)"}"#, []),
        ("no purchase", app, #"{"app_user_id":"u1"}"#, []),
        ("a blank purchase", app, #"{"app_user_id":"u1","fetch_token":"  "}"#, []),
        ("a word for no purchase", app, #"{"app_user_id":"u1","fetch_token":"null"}"#, []),
        ("another media type", app, body, [TransportHeader("Content-Type", "text/plain")]),
        ("a body that is too large", app, body + String(repeating: " ", count: 5 << 20), []),
        ("a purchase at Google's", app, body, [TransportHeader("X-Platform", "android")]),
        (
          "an encoded body", app, body, [TransportHeader("Content-Encoding", "gzip")]
        ),
      ]
      for (name, app, body, headers) in kept {
        let answer = try await app.send(.post, "/v1/receipts", body, headers: headers)
        #expect(answer.status == 503, "\(name): \(answer.status) \(answer.text)")
        #expect(Int(answer["code"] ?? "") != nil && answer.header("Content-Type") == "application/json", "\(name)")
      }
      #expect(try await app.read("u1").active.isEmpty)
      #expect(try await app.post(receipt).status == 200)
    }
  }

  @Test func `attributes are kept by the SDK until they are recorded`() async throws {
    try await RevenueCatApp.run { app, _, _, _ async throws in
      let attributes = #"{"attributes":{"name":{"value":"Anna","updated_at_ms":1}}}"#
      for key in [nil, "appl_ofSomebodyElse", RunningService.supportKey] {
        let stranger = RevenueCatApp(service: app.service, key: key)
        #expect(try await stranger.send(.post, "/v1/subscribers/u1/attributes", attributes).status == 503)
      }
      #expect(try await app.send(.post, "/v1/subscribers/u1/attributes", "[]").status == 400, "no later try is read")
      #expect(try await app.send(.post, "/v1/subscribers/u1/attributes", attributes).status == 200)
    }
  }

  @Test func `while the dialect is off, purchases are kept`() async throws {
    try await RevenueCatApp.run(dialects: []) { app, store, _, _ async throws in
      for key in [RunningService.publicKey, RunningService.serviceKey, nil] {
        let app = RevenueCatApp(service: app.service, key: key)
        let answer = try await app.post(try store.simulator.issueReceipt(.renewing).receiptData)
        #expect(answer.status == 503 && answer.header("Retry-After") == "3600")
      }
      let request = "GET /v1/subscribers/u1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
      #expect(try await app.service.exchange(request).hasPrefix("HTTP/1.1 404"))
    }
  }

  @Test func `a fault of the purchase itself is final`() async throws {
    try await RevenueCatApp.run(["sandbox": "reject"]) { app, store, _, _ async throws in
      let simulator = store.simulator
      #expect(try await app.post(try simulator.issueReceipt(.renewing).receiptData, of: "owner").status == 200)
      let final: [(String, String, Int, String)] = [
        ("undecodable", "bm90IGEgcmVjZWlwdA==", 400, "7103"),
        ("forged", try simulator.issueReceipt(.renewing, subscriber: 3, format: .forged).receiptData, 422, "7103"),
        ("another app's", try simulator.issueReceipt(.wrongApp, subscriber: 4).receiptData, 422, "7103"),
        ("of the sandbox", try simulator.issueReceipt(environment: .sandbox, subscriber: 5).receiptData, 422, "7103"),
      ]
      for (name, token, status, code) in final {
        let answer = try await app.post(token, of: "thief")
        #expect(answer.status == status && answer["code"] == code, "\(name): \(answer.status) \(answer.text)")
      }
    }
  }

  @Test func `a purchase of another user's is refused, and cannot be restored`() async throws {
    for (policy, isRefused) in [("keep", true), ("transfer", false), ("transfer_if_inactive", true)] {
      try await RevenueCatApp.run(["ownership": policy]) { app, store, _, _ async throws in
        let receipt = try store.simulator.issueReceipt(.renewing).receiptData
        #expect(try await app.post(receipt, of: "owner").status == 200)
        let eligible = try await app.send(
          .post, "/v1/subscribers/thief/restore/eligibility", #"{"fetch_token":"\#(receipt)"}"#)
        #expect(eligible["is_purchase_allowed_by_restore_behavior"] == (isRefused ? "false" : "true"), "\(policy)")
        let answer = try await app.post(receipt, of: "thief")
        #expect(answer.status == (isRefused ? 409 : 200), "\(policy)")
        if isRefused { #expect(answer["code"] == "7102") }
        let own = try await app.send(
          .post, "/v1/subscribers/thief/restore/eligibility", #"{"fetch_token":"\#(receipt)"}"#)
        #expect(own["is_purchase_allowed_by_restore_behavior"] == (isRefused ? "false" : "true"), "\(policy)")
      }
    }
  }

  @Test func `calls about one user are limited, and a purchase is kept`() async throws {
    let clock = MovingClock()
    var settings = Settings(server: ["user_rate_limit": "1"])
    settings.dialects = ["revenuecat"]
    try await RunningService.besideStore(settings: settings, now: { clock.date }) {
      service, store in
      let app = RevenueCatApp(service: service)
      var statuses: [Int] = []
      for _ in 0..<6 { statuses.append(try await app.send(.get, "/v1/subscribers/u1").status) }
      #expect(statuses.contains(429))
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      for _ in 0..<6 {
        let answer = try await app.post(receipt)
        #expect([200, 503].contains(answer.status))
        if answer.status == 503 { #expect(answer.header("Retry-After") != nil) }
      }
    }
  }
}
