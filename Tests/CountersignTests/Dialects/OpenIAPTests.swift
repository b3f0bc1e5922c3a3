import Foundation
import HTTPTransport
import Testing
import TestSupport

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer
@testable import Entitlements

/// `POST /v1/purchase/verify` as OpenIAP's clients ask and read.
@Suite struct OpenIAPTests {
  static let cases: [(Scenario, String)] = [
    (.renewing, "true ENTITLED pro.monthly"), (.trial, "true ENTITLED pro.monthly"),
    (.renewalOff, "true ENTITLED pro.monthly"), (.grace, "true ENTITLED pro.monthly"),
    (.billingRetry, "true ENTITLED pro.monthly"), (.expiredVoluntary, "false EXPIRED pro.monthly"),
    (.refunded, "false CANCELED premium.monthly"), (.familyRevoked, "false CANCELED premium.monthly"),
    (.lifetime, "true ENTITLED forever"), (.lifetimeRefunded, "false CANCELED forever"),
  ]

  @Test func `a transaction is answered with its state, of a user and of nobody`() async throws {
    try await DialectBench.run { service, store in
      for (number, (scenario, state)) in Self.cases.enumerated() {
        let signed = try store.simulator.issueTransaction(scenario, subscriber: Int64(number + 1))
        let token = try TokenMint.user("user-\(number)", at: noon)
        for key in [RunningService.publicKey, RunningService.serviceKey, token] {
          let answer = try await service.openIAP(try DialectBench.openIAP(signed.signedTransaction), key: key)
          #expect(answer.status == 200, "\(answer.text)")
          #expect(answer.openIAPState == state, "\(scenario): \(answer.text)")
          #expect(answer["store"] == "apple")
          #expect(answer["environment"] == "Production")
        }
      }
    }
  }

  @Test func `each purchase is answered by itself, whatever else the user has`() async throws {
    try await DialectBench.run { service, store in
      let token = try DialectBench.token()
      let forever = try store.simulator.issueTransaction(.lifetime, subscriber: 1).signedTransaction
      #expect(try await service.openIAP(try DialectBench.openIAP(forever), key: token)["state"] == "ENTITLED")
      let ended = try store.simulator.issueTransaction(.expiredVoluntary, subscriber: 2).signedTransaction
      #expect(
        try await service.openIAP(try DialectBench.openIAP(ended), key: token).openIAPState
          == "false EXPIRED pro.monthly")
      #expect(try await service.profile(DialectBench.user).verdict == "premium active lifetime")
    }
  }

  @Test func `a product that no catalog names is genuine all the same`() async throws {
    try await DialectBench.run { service, store in
      let signed = try store.simulator.issueTransaction(.unknownProduct).signedTransaction
      for key in [RunningService.serviceKey, try DialectBench.token()] {
        let answer = try await service.openIAP(try DialectBench.openIAP(signed), key: key)
        #expect(answer["isValid"] == "true", "\(answer.text)")
        #expect(answer["state"] == "ENTITLED")
      }
    }
  }

  @Test func `a transaction that Apple signed and nobody here can read is no verdict`() async throws {
    try await DialectBench.run { service, _ in
      let signed = try DevelopmentPKI().unreadableTransaction(at: noon)
      #expect(try await service.openIAP(try DialectBench.openIAP(signed)).status == 500)
      #expect(service.log.text.contains("its purchaseDate cannot be read"))
    }
  }

  @Test func `a purchase of another product than expected is not valid`() async throws {
    try await DialectBench.run { service, store in
      let signed = try store.simulator.issueTransaction(.renewing).signedTransaction
      let right = try DialectBench.openIAP(signed, expected: "com.example.app.pro.monthly")
      #expect(try await service.openIAP(right).openIAPState == "true ENTITLED pro.monthly")
      let wrong = try DialectBench.openIAP(signed, expected: "com.example.app.premium.monthly")
      #expect(try await service.openIAP(wrong).openIAPState == "false INAUTHENTIC pro.monthly")
    }
  }

  @Test func `a purchase is the token's user's, the named user's, or nobody's`() async throws {
    for policy in ["hint", "user_id"] {
      try await DialectBench.run(DialectBench.settings(policy: ["app_account_token": policy])) { service, store in
        let name = try #require(UUID(uuidString: "00000000-0000-4000-8000-000000000002"))
        let named = try store.simulator.issueTransaction(.renewing, subscriber: 1, appAccountToken: name)
        let answer = try await service.openIAP(
          try DialectBench.openIAP(named.signedTransaction), key: RunningService.publicKey)
        #expect(answer["state"] == "ENTITLED", "\(answer.text)")
        let tier = policy == "user_id" ? "pro active renewing" : "free active no_purchases"
        #expect(try await service.profile(name.uuidString.lowercased()).verdict == tier)

        let unnamed = try store.simulator.issueTransaction(.renewing, subscriber: 2)
        let body = try DialectBench.openIAP(unnamed.signedTransaction)
        #expect(try await service.openIAP(body)["state"] == "ENTITLED")
        let path = "/v1/transactions/\(unnamed.originalTransactionID)"
        #expect(try await service.send(.get, path, key: RunningService.supportKey).status == 404)
        #expect(try await service.openIAP(body, key: try DialectBench.token())["state"] == "ENTITLED")
        #expect(try await service.profile(DialectBench.user).verdict == "pro active renewing")
      }
    }
  }

  @Test func `a forged purchase is INAUTHENTIC, and another's purchase an error`() async throws {
    try await DialectBench.run(DialectBench.settings(policy: ["sandbox": "reject"])) { service, store in
      let signed = try store.simulator.issueTransaction(.renewing).signedTransaction
      for body in [
        try DialectBench.openIAP(String(signed.dropLast(4)) + "AAAA"), try DialectBench.openIAP("none"),
        try DialectBench.openIAP(try store.simulator.issueTransaction(.wrongApp, subscriber: 2).signedTransaction),
        try DialectBench.openIAP(
          try store.simulator.issueTransaction(.renewing, environment: .sandbox, subscriber: 3).signedTransaction),
      ] {
        let answer = try await service.openIAP(body)
        #expect(answer.status == 200)
        #expect(answer.openIAPState == "false INAUTHENTIC -", "\(answer.text)")
      }
      #expect(try await service.validate(signed, user: "first").status == 200)
      let others = try await service.openIAP(try DialectBench.openIAP(signed), key: try DialectBench.token())
      #expect(others.status == 409)
      #expect(others.openIAPErrors == ["owned_by_another_user"])
    }
  }

  @Test func `another signed member of Apple's is an error that names the member`()
    async throws
  {
    try await DialectBench.run { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      let decoded = #"{"originalTransactionId":"1","productId":"p","transactionId":"1"}"#
      for (jws, word) in [
        (receipt, "receipt"), (decoded, "jwsRepresentation"),
        (Data(decoded.utf8).base64EncodedString(), "purchaseToken"),
      ] {
        let answer = try await service.openIAP(try DialectBench.openIAP(jws))
        #expect(answer.status == 400 && answer.openIAPErrors == ["malformed_request"], "\(answer.text)")
        #expect(answer.text.contains("'jws'") && answer.text.contains(word), "\(answer.text)")
        #expect(answer["isValid"] == nil)
      }
    }
  }

  @Test func `callers and requests that are no good get errors`() async throws {
    try await DialectBench.run { service, store in
      let body = try DialectBench.openIAP(try store.simulator.issueTransaction().signedTransaction)
      for (key, status) in [(nil, 401), ("appl_nobodys-key-of-tests", 401), (RunningService.supportKey, 403)] {
        let answer = try await service.openIAP(body, key: key)
        #expect(answer.status == status)
        #expect(answer.openIAPErrors.count == 1)
      }
      for body in ["{", "{}", #"{"store":"apple"}"#, #"{"store":"google","purchaseToken":"t"}"#] {
        let answer = try await service.openIAP(body)
        #expect(answer.status == 400)
        #expect(answer.openIAPErrors == ["malformed_request"])
      }
    }
  }

  // MARK: kitApi

  private static let states: [(Scenario, String)] = [
    (.renewing, "true pro.monthly Active"), (.grace, "true pro.monthly InGracePeriod"),
    (.lifetime, "true forever Active"), (.expiredVoluntary, "false pro.monthly Expired"),
    (.refunded, "false premium.monthly Refunded"), (.familyRevoked, "false premium.monthly Revoked"),
    (.empty, "false none"), (.twoGroups, "true premium.monthly Active"),
  ]

  @Test(arguments: states) func `kitApi reads the state of a user`(scenario: Scenario, expected: String) async throws {
    let now = noon.addingTimeInterval(0.123456789)
    try await DialectBench.run(now: { now }) { service, store in
      #expect(try await service.validate(try store.simulator.issueReceipt(scenario).receiptData).status == 200)
      let status = try await service.kit("status")
      #expect(status.status == 200, "\(status.text)")
      let subscription = status.object["subscription"] as? [String: Any]
      let product = subscription?["productId"] as? String
      let words = [status["active"], product ?? "none", subscription?["state"] as? String].compactMap(\.self)
      #expect(words.joined(separator: " ").replacing("com.example.app.", with: "") == expected, "\(status.text)")
      let entitlements = try await service.kit("entitlements")
      let other = scenario == .twoGroups ? ["com.example.app.pro.monthly"] : []
      let owned = expected.hasPrefix("true") ? [product].compactMap(\.self) + other : []
      #expect(entitlements["userId"] == "user-1")
      #expect(entitlements.object["productIds"] as? [String] == owned)
      #expect(entitlements.array("subscriptions").count == owned.count)
      if scenario == .renewing {
        #expect(subscription?["expiresAt"] as? Int == 1_719_835_200_000)
        #expect(subscription?["renewsAt"] as? Int == 1_719_835_200_000)
        #expect(subscription?["willRenew"] as? Bool == true)
        #expect(subscription?["platform"] as? String == "IOS" && subscription?["userId"] as? String == "user-1")
      }
      if scenario == .lifetime { #expect(subscription?["expiresAt"] == nil) }
    }
  }

  @Test func `kitApi sees a grant as access without a purchase`() async throws {
    try await DialectBench.run { service, _ in
      let given = try await service.send(.post, "/v1/profiles/user-1/grants", body: #"{"tier":"pro","for":"1d"}"#)
      #expect(given.status == 201)
      #expect(try await service.kit("status").text == #"{"active":true,"subscription":null}"# + "\n")
    }
  }

  @Test func `kitApi binds a signed transaction to a user, once and to no other`() async throws {
    try await DialectBench.run { service, store in
      let signed = try store.simulator.issueTransaction(.renewing).signedTransaction
      func bind(_ token: String, _ user: String = "user-1") async throws -> Answer {
        try await service.send(
          .post, "/v1/subscriptions/bind-user/\(RunningService.publicKey)", key: nil,
          body: #"{"purchaseToken":"\#(token)","userId":"\#(user)"}"#)
      }
      for _ in 0..<2 { #expect(try await bind(signed).text == #"{"bound":true,"ok":true}"# + "\n") }
      #expect(try await service.profile().verdict == "pro active renewing")
      let other = try await bind(signed, "user-2")
      #expect(other.status == 409 && other.openIAPErrors == ["owned_by_another_user"])
      let receipt = try await bind(try store.simulator.issueReceipt(.renewing, subscriber: 2).receiptData)
      #expect(receipt.status == 400 && receipt.text.contains("'purchaseToken'"))
      // A number could be guessed.
      #expect(try await bind("2000000123456789").status == 400)
      #expect(try await bind(signed, "no such user").status == 400)
    }
  }

  @Test func `kitApi lists the catalog`() async throws {
    var settings = DialectBench.settings()
    settings.products = [
      "a.month": "{ tier: pro, period: P1M, price: { USD: 4.99 } }", "b.ever": "{ tier: premium, kind: lifetime }",
      "c.coins": "{ kind: consumable }", "d.season": "{ tier: pro, kind: non_renewing, period: P1M }",
    ]
    try await DialectBench.run(settings) { service, _ in
      let path = "/v1/products/\(RunningService.publicKey)"
      let answer = try await service.send(.get, path + "?platform=IOS", key: nil)
      let products = answer.array("products")
      #expect(products.map { $0["type"] as? String } == ["Subscription", "NonConsumable", "Consumable", "Consumable"])
      #expect(products.first?["priceAmountMicros"] as? Int == 4_990_000)
      #expect(products.first?["billingPeriod"] as? String == "P1M")
      #expect(try await service.send(.get, path, key: nil).text == answer.text)
      let none = try await service.send(.get, path + "?platform=Android", key: nil).text
      #expect(none == #"{"hasMore":false,"products":[]}"# + "\n")
      #expect(try await service.send(.get, path + "?platform=iOS", key: nil).openIAPErrors == ["malformed_request"])
    }
  }

  @Test func `a path takes a public key alone, and no log has it`() async throws {
    try await DialectBench.run { service, _ in
      let token = try DialectBench.token()
      for key in [RunningService.serviceKey, RunningService.supportKey, token, "appl_nobodys", "%zz"] {
        for path in [
          "/v1/subscriptions/status/\(key)?userId=user-1", "/v1/subscriptions/entitlements/\(key)?userId=user-1",
          "/v1/products/\(key)",
        ] {
          // The header counts for nothing.
          let answer = try await service.send(.get, path, key: RunningService.serviceKey)
          #expect(answer.status == 401 && answer.openIAPErrors == ["unauthenticated"], "\(answer.text)")
        }
      }
      let bind = try await service.send(.post, "/v1/subscriptions/bind-user/x", key: nil, body: "{}")
      #expect(bind.status == 401)
      #expect(try await service.kit("status", user: "").status == 400)
      let nameless = try await service.send(
        .get, "/v1/subscriptions/status/\(RunningService.publicKey)", key: nil)
      #expect(nameless.status == 400 && nameless.text.contains("'userId'"))
      for key in [RunningService.serviceKey, RunningService.publicKey, token] {
        #expect(!service.log.text.contains(key))
      }
      #expect(service.log.text.contains("/v1/subscriptions/status/{api_key}"))
    }
  }

  @Test func `while Apple is away a user's purchase counts by its signature`() async throws {
    let settings = DialectBench.settings(appStore: ["deadline": "4s"], policy: ["provisional": "24h"])
    try await DialectBench.run(settings) { service, store in
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      let body = try DialectBench.openIAP(try store.simulator.issueTransaction(.renewing).signedTransaction)
      let answer = try await service.openIAP(body, key: try DialectBench.token())
      #expect(answer.openIAPState == "true ENTITLED pro.monthly", "\(answer.text)")
    }
  }

  @Test func `a consumable may be consumed, until it is refunded`() {
    let now = noon
    for (refund, kind, state) in [
      (nil, ProductKind.consumable, OpenIAPAnswer.State.readyToConsume), (now, .consumable, .canceled),
      (nil, nil, .entitled),
    ] {
      let row = Purchase(
        productID: "coins", transactionID: "1", originalTransactionID: "1", purchaseDate: now, cancellationDate: refund)
      let evidence = SubscriptionEvidence(
        key: SubscriptionKey(environment: .production, originalTransactionID: "1"), source: .signature,
        evidenceTime: now, evaluatedAt: now, purchases: [row])
      let verdict = Entitlement.none(
        tier: "free", reason: .noKnownProduct,
        explanation: Explanation(decidedBy: nil, passedOver: [], evaluatedAt: now))
      #expect(OpenIAPAnswer(row, evidence, verdict, kind: kind, at: now).state == state)
    }
  }
}
