import CountersignAPI
import Foundation
import HTTPTransport
import Ledger
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// RevenueCat's SDK in each scenario of the simulated App Store.
@Suite struct RevenueCatScenarioTests {
  /// Every story as a receipt, and those of which a signed transaction tells something else as one.
  private static let stories: [(Scenario, isSigned: Bool)] =
    Scenario.allCases.map { ($0, false) }
    + [.renewing, .grace, .refunded, .lifetime, .upgraded, .eventfulYear].map { ($0, true) }

  @Test(arguments: stories)
  func `the app shows the tier that we say, today and later`(scenario: Scenario, isSigned: Bool) async throws {
    try await RevenueCatApp.run(serverAPI: isSigned) { app, store, _, clock in
      let token: String
      do {
        token =
          isSigned
          ? try store.simulator.issueTransaction(scenario).signedTransaction
          : try store.simulator.issueReceipt(scenario).receiptData
      } catch { return }  // A receipt without a purchase has no transaction.
      let answer = try await app.post(token)
      guard answer.status == 200 else {
        let expected = [Scenario.wrongApp: (422, "7103"), .empty: (503, "7101")][scenario]
        #expect(answer.status == expected?.0 && answer["code"] == expected?.1, "\(answer.text)")
        return
      }
      #expect(RevenueCatApp.transaction(after: answer) == .finished)
      for days in [0, 1, 20, 40, 100, 400] {
        clock.advance(by: TimeInterval(days) * 86_400)
        store.simulator.setClock(clock.date)
        var info = try RevenueCatApp.info(answer)
        // The service asks Apple by itself, so that two reads may see two states.
        try await eventually {
          info = try await app.read("u1")
          let tier = try #require(try await app.service.profile("u1")["tier"])
          return info.active == Self.entitlements(of: tier)
        }
        for (name, entitlement) in info.subscriber.entitlements where !info.active.contains(name) {
          #expect(entitlement.expiresDate.map { $0 < clock.date } == true)
          // The SDK for the web takes any other for active.
          #expect(info.subscriber.subscriptions[entitlement.productIdentifier] != nil)
        }
        // The SDKs for Android and the web need the product of each entitlement to be listed.
        for entitlement in info.subscriber.entitlements.values {
          #expect(
            info.subscriber.subscriptions[entitlement.productIdentifier] != nil
              || info.subscriber.nonSubscriptions[entitlement.productIdentifier] != nil)
        }
      }
    }
  }

  /// Every tier up to one, the lowest apart.
  private static func entitlements(of tier: String) -> Set<String> {
    ["free": [], "pro": ["pro"], "premium": ["pro", "premium"]][tier] ?? [tier]
  }

  /// The tier that each story gives on the day of its receipt.
  private static func tier(of scenario: Scenario) -> String {
    switch scenario {
    case .subscriber, .trial, .renewing, .lateRenewal, .renewalOff, .grace, .graceEnded, .billingRetry, .crossgraded,
      .commitment, .commitmentStopped, .migrated, .nonRenewing, .eventfulYear:
      "pro"
    case .refundedThenRebought, .upgraded, .downgradePending, .familyShared, .lifetime, .twoGroups: "premium"
    case .expiredVoluntary, .expiredBillingError, .expiredPriceIncrease, .expiredProductUnavailable, .expiredUnknown,
      .graceWithoutDate, .voluntaryRetrying, .upgradeRefunded, .refunded, .refundedProrated, .familyRevoked,
      .lifetimeRefunded, .empty, .unknownProduct, .wrongApp, .accountGone:
      "free"
    }
  }

  /// One app asks `entitlements["pro"].isActive`, another `isEntitledTo("premium")`.
  @Test(arguments: Scenario.allCases, ["cumulative", "exact"])
  func `the gates of two apps are right, as each SDK reads the answer`(scenario: Scenario, scope: String) async throws {
    let start = Date(timeIntervalSince1970: 1_768_478_400.123456789)
    try await RevenueCatApp.run(entitlements: scope, at: start) { app, store, _, clock in
      let receipt = try store.simulator.issueReceipt(scenario).receiptData
      _ = try await app.post(receipt)
      func gates(_ sdk: RevenueCatSDK) async throws -> [Bool] {
        let active = try sdk.active(try await app.send(.get, "/v1/subscribers/u1"), at: clock.date)
        return [active.contains("pro"), active.contains("premium")]
      }
      func expected(_ tier: String) -> [Bool] {
        let hasBoth = scope == "cumulative" || scenario == .twoGroups
        return [tier == "pro" || tier == "premium" && hasBoth, tier == "premium"]
      }
      for sdk in RevenueCatSDK.allCases {
        let now = try await gates(sdk)
        #expect(now == expected(Self.tier(of: scenario)), "\(sdk)")
      }
      for days in [1, 19, 20, 60, 300] {
        clock.advance(by: TimeInterval(days) * 86_400)
        store.simulator.setClock(clock.date)
        for sdk in RevenueCatSDK.allCases {
          // The service asks Apple by itself, so that two reads may see two states.
          try await eventually {
            let tier = try #require(try await app.service.profile("u1")["tier"])
            return try await gates(sdk) == expected(tier)
          }
        }
      }
    }
  }

  @Test func `a customer who pays for two tiers has both, each by its own purchase`() async throws {
    for scope in ["cumulative", "exact"] {
      try await RevenueCatApp.run(entitlements: scope) { app, store, _, _ async throws in
        let answer = try await app.post(try store.simulator.issueReceipt(.twoGroups).receiptData)
        let entitlements = try RevenueCatApp.info(answer).subscriber.entitlements
        #expect(
          entitlements.mapValues(\.productIdentifier)
            == ["pro": "com.example.app.pro.monthly", "premium": "com.example.app.premium.monthly"])
        let (pro, premium) = (noon + 20 * 86_400, noon + 25 * 86_400)
        #expect(entitlements["premium"]?.expiresDate == premium)
        // Who has premium has what pro has.
        #expect(entitlements["pro"]?.expiresDate == (scope == "cumulative" ? premium : pro))
      }
    }
  }

  @Test func `a lower tier is there without a purchase of its own only where tiers add up`() async throws {
    for (scope, active) in [("cumulative", ["pro", "premium"]), ("exact", ["premium"])] as [(String, Set<String>)] {
      try await RevenueCatApp.run(entitlements: scope) { app, store, _, _ async throws in
        let answer = try await app.post(try store.simulator.issueReceipt(.familyShared).receiptData)
        let info = try RevenueCatApp.info(answer)
        #expect(info.active == active)
        for name in active {
          #expect(info.subscriber.entitlements[name]?.productIdentifier == "com.example.app.premium.monthly")
        }
        // A grant of a lower tier beside it is one more entitlement.
        let given = try await app.service.send(
          .post, "/v1/profiles/u1/grants", body: #"{"tier":"pro","for":"7d","kind":"promotion"}"#)
        #expect(given.status == 201)
        #expect(try await app.read("u1").active == ["pro", "premium"])
        let mapping = try await app.send(.get, "/v1/product_entitlement_mapping").text
        let list = scope == "cumulative" ? #"["pro","premium"]"# : #"["premium"]"#
        #expect(mapping.contains(#""com.example.app.forever":{"base_plan_id":null,"entitlements":\#(list)"#))
      }
    }
  }

  @Test func `a tier that ended leaves the ones below it behind, where tiers add up`() async throws {
    for (scope, names) in [("cumulative", ["pro", "premium"]), ("exact", ["premium"])] as [(String, Set<String>)] {
      try await RevenueCatApp.run(entitlements: scope) { app, store, _, _ async throws in
        let answer = try await app.post(try store.simulator.issueReceipt(.refunded).receiptData)
        let entitlements = try RevenueCatApp.info(answer).subscriber.entitlements
        #expect(Set(entitlements.keys) == names)
        for entitlement in entitlements.values {
          #expect(entitlement.productIdentifier == "com.example.app.premium.monthly")
          #expect(entitlement.expiresDate == noon - 86_400)
        }
      }
    }
  }

  @Test func `a subscription that was upgraded ended with the upgrade, also where that was refunded`() async throws {
    try await RevenueCatApp.run { app, store, _, _ async throws in
      // Before the upgrade, after it, and after its refund.
      for (days, active) in [(10.0, ["pro"]), (3, ["pro", "premium"]), (0, [])] as [(Double, Set<String>)] {
        let signed = try store.simulator.issueTransaction(.upgradeRefunded, age: .seconds(days * 86_400))
        let info = try RevenueCatApp.info(try await app.post(signed.signedTransaction))
        #expect(info.active == active)
        let pro = try #require(info.subscriber.subscriptions["com.example.app.pro.yearly"])
        guard let premium = info.subscriber.subscriptions["com.example.app.premium.monthly"] else { continue }
        #expect(pro.expiresDate == premium.purchaseDate && days < 10)
        // Premium gave pro until the refund.
        let entitlements = info.subscriber.entitlements
        #expect(days > 0 || entitlements["pro"] == entitlements["premium"])
      }
    }
  }

  @Test func `Xcode's purchases are taken out of the JSON that the SDK makes of them`() async throws {
    try await RevenueCatApp.run { app, store, _, _ async throws in
      let (old, new) = (
        try store.simulator.issueTransaction(.expiredVoluntary), try store.simulator.issueTransaction(.renewing)
      )
      for (number, begin) in ["{", "{\n  "].enumerated() {
        let user = "u\(number)"
        let json =
          begin
          + #""environment":"xcode","transactions":["\#(new.signedTransaction)","\#(old.signedTransaction)"]}"#
        let answer = try await app.post(Data(json.utf8).base64EncodedString(), of: user)
        #expect(answer.status == (number == 0 ? 200 : 409), "the transaction is the first user's")
        #expect(try await app.read(user).active == (number == 0 ? ["pro"] : []))
      }
      let none = Data(#"{"environment":"xcode","transactions":[]}"#.utf8).base64EncodedString()
      #expect(try await app.post(none).status == 400)
    }
  }

  @Test func `a purchase that Apple's answer lacks is not finished, unless it is restored`() async throws {
    try await RevenueCatApp.run { app, store, _, _ async throws in
      let empty = try store.simulator.issueReceipt(.empty).receiptData
      let bought = #""product_id":"com.example.app.pro.monthly","transaction_id":"2000000123456789","#
      let answer = try await app.post(empty, more: bought)
      #expect(answer.status == 503 && RevenueCatApp.transaction(after: answer) == .kept)
      let restored = try await app.send(
        .post, "/v1/receipts",
        #"{"app_user_id":"u1","fetch_token":"\#(empty)",\#(bought)"initiation_source":"restore"}"#)
      #expect(restored.status == 200)
      // An SDK that cannot read its products names none; one of 2025 names no transaction.
      let fresh = try store.simulator.issueReceipt(.empty, subscriber: 3).receiptData
      #expect(try await app.post(fresh, of: "u3").status == 503, "the app itself is no purchase")
      #expect(try await app.post(nil, of: "u3", more: #""fetch_token":"","app_transaction":"eyJ","#).status == 503)
      let monthly = #""product_id":"com.example.app.pro.monthly","#
      let over = try store.simulator.issueReceipt(.expiredVoluntary, subscriber: 4).receiptData
      #expect(try await app.post(over, of: "u4", more: monthly).status == 503, "what was just bought is not over")
      let queued = try await app.send(
        .post, "/v1/receipts",
        #"{"app_user_id":"u4","fetch_token":"\#(over)",\#(monthly)"initiation_source":"queue"}"#)
      #expect(queued.status == 200)
      // An anonymous customer's purchase has both.
      let anonymous = try await app.send(
        .post, "/v1/receipts",
        #"{"app_user_id":"u2","fetch_token":"\#(empty)",\#(bought)"is_restore":true,"initiation_source":"purchase"}"#)
      #expect(anonymous.status == 503)
      // Of a subscription an answer may have the newest period alone.
      let renewing = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await app.post(renewing, more: bought).status == 200)
      let other = #""product_id":"com.example.app.premium.monthly","transaction_id":"2000000123456789","#
      #expect(try await app.post(renewing, more: other).status == 503)
      // A purchase that ended before is bought again, and the product of the next renewal is not bought yet.
      for (number, (scenario, status)) in [(Scenario.expiredVoluntary, 503), (.downgradePending, 200)].enumerated() {
        let receipt = try store.simulator.issueReceipt(scenario, subscriber: Int64(number + 5)).receiptData
        #expect(try await app.post(receipt, of: "u\(number + 5)", more: bought).status == status)
      }
      // SDKs that name no transaction: the receipt itself has the product.
      let product = #""product_id":"com.example.app.pro.monthly","#
      #expect(try await app.post(empty, of: "u9", more: product).status == 503)
    }
  }

  @Test func `the answer to a post is for the moment of Apple's answer, whatever our clock says`() async throws {
    try await RevenueCatApp.run { app, store, _, clock async throws in
      let receipt = try store.simulator.issueReceipt(.grace).receiptData
      clock.advance(by: 400 * 86_400)
      let info = try RevenueCatApp.info(try await app.post(receipt))
      #expect(info.active == ["pro"] && info.requestDate < clock.date - 300 * 86_400)
    }
  }

  @Test func `grace is told as grace, and the entitlement lasts as long`() async throws {
    try await RevenueCatApp.run { app, store, _, _ async throws in
      let info = try RevenueCatApp.info(try await app.post(try store.simulator.issueReceipt(.grace).receiptData))
      let subscription = try #require(info.subscriber.subscriptions["com.example.app.pro.monthly"])
      #expect(subscription.expiresDate == noon - 3 * 86_400)
      #expect(subscription.gracePeriodExpiresDate == noon + 13 * 86_400)
      #expect(subscription.billingIssuesDetectedAt != nil && subscription.unsubscribeDetectedAt == nil)
      #expect(info.subscriber.entitlements["pro"]?.expiresDate == noon + 13 * 86_400)
      #expect(info.subscriber.managementURL == "https://apps.apple.com/account/subscriptions")
    }
  }

  @Test func `grace and retry that the status alone tells begin with the end of the period`() async throws {
    try await RevenueCatApp.run(serverAPI: true) { app, store, _, clock async throws in
      let signed = try store.simulator.issueTransaction(.graceWithoutDate).signedTransaction
      let info = try RevenueCatApp.info(try await app.post(signed))
      let subscription = try #require(info.subscriber.subscriptions["com.example.app.pro.monthly"])
      #expect(subscription.billingIssuesDetectedAt == noon - 3 * 86_400)
      #expect(subscription.gracePeriodExpiresDate == noon + 86_400)
      let entitlement = try #require(info.subscriber.entitlements["pro"])
      #expect(entitlement.expiresDate == noon + 86_400 && entitlement.gracePeriodExpiresDate == noon + 86_400)
      // The grace was granted: the retry after it gives no access.
      clock.advance(by: 14 * 86_400)
      store.simulator.setClock(clock.date)
      let later = try #require(
        try RevenueCatApp.info(try await app.post(signed)).subscriber.subscriptions["com.example.app.pro.monthly"])
      #expect(later.billingIssuesDetectedAt != nil)
      #expect(try #require(later.gracePeriodExpiresDate) < clock.date)
    }
  }

  @Test func `the subscription of a deleted account has ended`() async throws {
    try await RevenueCatApp.run { app, store, _, clock async throws in
      let receipt = try store.simulator.issueReceipt(.accountGone).receiptData
      #expect(try await app.service.validate(receipt, user: "u1").verdict == "free expired account_gone")
      let subscription = try #require(try await app.read("u1").subscriber.subscriptions["com.example.app.pro.monthly"])
      #expect(try #require(subscription.expiresDate) <= clock.date)
    }
  }

  @Test func `the price is the one that Apple signed, also after an answer that does not say it`() async throws {
    try await RevenueCatApp.run(["provisional": "24h", "reuse": "30s"]) { app, store, _, clock async throws in
      let signed = try store.simulator.issueTransaction(.renewing).signedTransaction
      let info = try RevenueCatApp.info(try await app.post(signed))
      let price = try #require(info.subscriber.subscriptions["com.example.app.pro.monthly"]?.price)
      #expect(price.currency == "USD" && price.amount == 4.99)
      let answer = try await app.send(.get, "/v1/subscribers/u1")
      #expect(answer.text.contains(#""price":{"amount":4.99,"currency":"USD"}"#), "\(answer.text)")
      clock.advance(by: 86_400)
      store.simulator.setClock(clock.date)
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      // The second post is answered by the same answer of Apple's.
      for _ in 0..<2 { #expect(try await app.service.validate(receipt, user: "u1")["tier"] == "pro") }
      #expect(try await app.read("u1").subscriber.subscriptions["com.example.app.pro.monthly"]?.price == price)
    }
  }

  @Test func `renewal that is off is told with the moment at which it was first seen`() async throws {
    try await RevenueCatApp.run { app, store, _, clock async throws in
      let receipt = try store.simulator.issueReceipt(.renewalOff).receiptData
      let first = try RevenueCatApp.info(try await app.post(receipt))
      let since = try #require(first.subscriber.subscriptions.values.first?.unsubscribeDetectedAt)
      clock.advance(by: 3 * 86_400)
      store.simulator.setClock(clock.date)
      let later = try RevenueCatApp.info(try await app.post(receipt))
      #expect(later.subscriber.subscriptions.values.first?.unsubscribeDetectedAt == since)
    }
  }

  @Test func `a purchase for life has no end, and ends with its refund`() async throws {
    try await RevenueCatApp.run { app, store, _, _ async throws in
      let bought = try RevenueCatApp.info(try await app.post(try store.simulator.issueReceipt(.lifetime).receiptData))
      let entitlement = try #require(bought.subscriber.entitlements["premium"])
      #expect(entitlement.expiresDate == nil && bought.subscriber.subscriptions.isEmpty)
      let purchase = try #require(bought.subscriber.nonSubscriptions[entitlement.productIdentifier]?.first)
      #expect(purchase.id == purchase.storeTransactionID && purchase.store == "app_store" && !purchase.isSandbox)
      let refunded = try RevenueCatApp.info(
        try await app.post(
          try store.simulator.issueReceipt(.lifetimeRefunded, subscriber: 2).receiptData, of: "u2"))
      // The SDK for the web takes the product that is listed for access, so that no entitlement may name it.
      #expect(refunded.subscriber.entitlements.isEmpty)
      // It is listed, so that the app finishes it.
      #expect(refunded.subscriber.nonSubscriptions.count == 1)
    }
  }

  @Test func `the words for trial, family, sandbox and refund are theirs`() async throws {
    try await RevenueCatApp.run { app, store, _, _ async throws in
      func subscription(_ scenario: Scenario, _ number: Int64, inSandbox isSandbox: Bool = false)
        async throws -> CustomerInfo.Subscription
      {
        let receipt = try store.simulator.issueReceipt(
          scenario, environment: isSandbox ? .sandbox : .production, subscriber: number)
        let info = try RevenueCatApp.info(try await app.post(receipt.receiptData, of: "u\(number)"))
        return try #require(info.subscriber.subscriptions.values.first)
      }
      #expect(try await subscription(.trial, 1).periodType == "trial")
      #expect(try await subscription(.familyShared, 2).ownershipType == "FAMILY_SHARED")
      #expect(try await subscription(.renewing, 3, inSandbox: true).isSandbox)
      let refunded = try await subscription(.refunded, 4)
      #expect(refunded.refundedAt == noon - 86_400 && refunded.expiresDate == refunded.refundedAt)
      let plain = try await subscription(.renewing, 5)
      #expect(plain.periodType == "normal" && plain.ownershipType == "PURCHASED" && plain.store == "app_store")
      // verifyReceipt tells no price, a signed transaction does.
      let signed = try store.simulator.issueTransaction(.renewing, subscriber: 6).signedTransaction
      let priced = try RevenueCatApp.info(try await app.post(signed, of: "u6")).subscriber.subscriptions.values.first
      #expect(plain.price == nil && priced?.price?.amount == 4.99 && priced?.price?.currency == "USD")
    }
  }

  @Test func `a grant is shown as promotional, and a trial as a trial`() async throws {
    try await RevenueCatApp.run { app, _, _, _ in
      let given = try await app.service.send(
        .post, "/v1/profiles/u1/grants", body: #"{"tier":"pro","for":"30d","kind":"promotion"}"#)
      #expect(given.status == 201)
      let info = try await app.read("u1")
      #expect(info.active == ["pro"])
      let entitlement = try #require(info.subscriber.entitlements["pro"])
      let subscription = try #require(info.subscriber.subscriptions[entitlement.productIdentifier])
      #expect(subscription.store == "promotional" && entitlement.expiresDate == noon + 30 * 86_400)
    }
  }

  @Test func `a state that is held lasts until the hold is over`() async throws {
    try await RevenueCatApp.run { app, store, _, clock async throws in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await app.post(receipt).status == 200)
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      let end = try #require(try await app.read("u1").subscriber.entitlements["pro"]?.expiresDate)
      clock.advance(by: (end + 86_400).timeIntervalSince(clock.date))
      let held = try await app.read("u1")
      #expect(held.active == ["pro"] && held.subscriber.entitlements["pro"]?.expiresDate == end + 7 * 86_400)
      clock.advance(by: 7 * 86_400)
      #expect(try await app.read("u1").active.isEmpty)
    }
  }
}
