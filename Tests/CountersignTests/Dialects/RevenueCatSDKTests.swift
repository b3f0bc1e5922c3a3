import CountersignAPI
import Entitlements
import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// RevenueCat's SDK against the running service: what it reads, what it posts, and who may.
@Suite struct RevenueCatSDKTests {
  static let start = Date(timeIntervalSince1970: 1_718_452_800)

  private func run(
    _ policy: [String: String] = ["provisional": "24h"], dialects: [String] = ["revenuecat"], serverAPI: Bool = false,
    products: [String: String] = [:], deadline: String = "1m",
    body: @Sendable (RevenueCatApp, SimulatedStore, ProfileStoreDouble, MovingClock) async throws -> Void
  ) async throws {
    let clock = MovingClock(Self.start)
    try await SimulatedStore.run(at: Self.start) { store in
      try await ProfileStoreDouble.running { profiles in
        var settings = Settings(
          server: ["user_rate_limit": "0", "request_deadline": "5m", "idle_timeout": "5m"],
          appStore: ["deadline": deadline], policy: policy, jwt: ["secret": TokenMint.secret],
          profileStore: .store(profiles.url, deadline: "1m"))
        settings.dialects = dialects
        settings.products.merge(products) { $1 }
        try await RunningService.run(
          apple: serverAPI ? store.apple() : store.apple, settings: settings, now: { clock.date }
        ) { service in
          try await body(RevenueCatApp(service: service), store, profiles, clock)
        }
      }
    }
  }

  // MARK: Customers

  @Test func `somebody new is a customer with every member that decoders require`() async throws {
    try await run { app, _, _, clock in
      let answer = try await app.send(.get, "/v1/subscribers/u1")
      #expect(answer.status == 201 && answer.header("X-RevenueCat-Request-Time") == "1718452800000")
      let subscriber =
        #"{"entitlements":{},"first_seen":"2024-06-15T12:00:00Z","last_seen":"2024-06-15T12:00:00Z","#
        + #""management_url":null,"non_subscriptions":{},"original_app_user_id":"u1","#
        + #""original_application_version":null,"original_purchase_date":null,"subscriptions":{}}"#
      #expect(
        answer.text
          == #"{"request_date":"2024-06-15T12:00:00Z","request_date_ms":1718452800000,"subscriber":\#(subscriber)}"#
          + "\n")
      clock.advance(by: 3 * 86_400)
      let again = try await app.send(.get, "/v1/subscribers/u1")
      let info = try RevenueCatApp.info(again)
      #expect(again.status == 200 && info.subscriber.firstSeen == Self.start && info.subscriber.lastSeen == clock.date)
    }
  }

  @Test func `an ID is the same however a client spells it in the path`() async throws {
    try await run { app, store, _, _ in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await app.post(receipt, of: RevenueCatApp.anonymous).status == 200)
      for spelling in [RevenueCatApp.anonymous, RevenueCatApp.encoded(RevenueCatApp.anonymous)] {
        let answer = try await app.send(.get, "/v1/subscribers/\(spelling)")
        #expect(answer.status == 200)
        #expect(try RevenueCatApp.info(answer).active == ["pro"])
      }
      let strange = "日本 & <x>".replacing(" ", with: "+")
      #expect(try await app.send(.get, "/v1/subscribers/\(RevenueCatApp.encoded(strange))").status == 201)
      #expect(try await app.read(strange).subscriber.originalAppUserID == strange)
      for id in ["null", "a b", "a/b", "a\u{7}b", String(repeating: "x", count: 101), "(null)", "[object Object]"] {
        let refused = try await app.send(.get, "/v1/subscribers/\(RevenueCatApp.encoded(id))")
        #expect(refused.status == 400 && refused["code"] == "7256", "\(id)")
      }
    }
  }

  // MARK: Scenarios

  /// Every story as a receipt, and those of which a signed transaction tells something else as one.
  private static let stories: [(Scenario, isSigned: Bool)] =
    Scenario.allCases.map { ($0, false) }
    + [.renewing, .grace, .refunded, .lifetime, .upgraded, .eventfulYear].map { ($0, true) }

  @Test(arguments: stories)
  func `the app shows the tier that we say, today and later`(scenario: Scenario, isSigned: Bool) async throws {
    try await run(serverAPI: isSigned) { app, store, _, clock in
      let token: String
      do {
        token =
          isSigned
          ? try store.simulator.issueTransaction(scenario).signedTransaction
          : try store.simulator.issueReceipt(scenario).receiptData
      } catch { return }  // A receipt without a purchase has no transaction.
      let answer = try await app.post(token)
      guard answer.status == 200 else {
        #expect(scenario == .wrongApp && answer.status == 422 && answer["code"] == "7103", "\(answer.text)")
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
          return info.active == (tier == "free" ? [] : [tier])
        }
        for (name, entitlement) in info.subscriber.entitlements where !info.active.contains(name) {
          #expect(entitlement.expiresDate.map { $0 < clock.date } == true)
        }
        // What the SDK for Android and the one for the web need: the product of each entitlement is listed.
        for entitlement in info.subscriber.entitlements.values {
          #expect(
            info.subscriber.subscriptions[entitlement.productIdentifier] != nil
              || info.subscriber.nonSubscriptions[entitlement.productIdentifier] != nil)
        }
      }
    }
  }

  @Test func `the answer to a post is for the moment of Apple's answer, whatever our clock says`() async throws {
    try await run { app, store, _, clock async throws in
      let receipt = try store.simulator.issueReceipt(.grace).receiptData
      clock.advance(by: 400 * 86_400)
      let info = try RevenueCatApp.info(try await app.post(receipt))
      #expect(info.active == ["pro"] && info.requestDate < clock.date - 300 * 86_400)
    }
  }

  @Test func `grace is told as grace, and the entitlement lasts as long`() async throws {
    try await run { app, store, _, _ async throws in
      let info = try RevenueCatApp.info(try await app.post(try store.simulator.issueReceipt(.grace).receiptData))
      let subscription = try #require(info.subscriber.subscriptions["com.example.app.pro.monthly"])
      #expect(subscription.expiresDate == Self.start - 3 * 86_400)
      #expect(subscription.gracePeriodExpiresDate == Self.start + 13 * 86_400)
      #expect(subscription.billingIssuesDetectedAt != nil && subscription.unsubscribeDetectedAt == nil)
      #expect(info.subscriber.entitlements["pro"]?.expiresDate == Self.start + 13 * 86_400)
      #expect(info.subscriber.managementURL == "https://apps.apple.com/account/subscriptions")
    }
  }

  @Test func `renewal that is off is told with the moment at which it was first seen`() async throws {
    try await run { app, store, _, clock async throws in
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
    try await run { app, store, _, _ async throws in
      let bought = try RevenueCatApp.info(try await app.post(try store.simulator.issueReceipt(.lifetime).receiptData))
      let entitlement = try #require(bought.subscriber.entitlements["premium"])
      #expect(entitlement.expiresDate == nil && bought.subscriber.subscriptions.isEmpty)
      let purchase = try #require(bought.subscriber.nonSubscriptions[entitlement.productIdentifier]?.first)
      #expect(purchase.id == purchase.storeTransactionID && purchase.store == "app_store" && !purchase.isSandbox)
      let refunded = try RevenueCatApp.info(
        try await app.post(
          try store.simulator.issueReceipt(.lifetimeRefunded, subscriber: 2).receiptData, of: "u2"))
      #expect(refunded.active.isEmpty)
      #expect(refunded.subscriber.entitlements["premium"]?.expiresDate == Self.start - 86_400)
      // It is listed, so that the app finishes it.
      #expect(refunded.subscriber.nonSubscriptions.count == 1)
    }
  }

  @Test func `the words for trial, family, sandbox and refund are theirs`() async throws {
    try await run { app, store, _, _ async throws in
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
      #expect(refunded.refundedAt == Self.start - 86_400 && refunded.expiresDate == refunded.refundedAt)
      let plain = try await subscription(.renewing, 5)
      #expect(plain.periodType == "normal" && plain.ownershipType == "PURCHASED" && plain.store == "app_store")
    }
  }

  @Test func `what was given is shown as promotional, and a trial as a trial`() async throws {
    try await run { app, _, _, _ in
      let given = try await app.service.send(
        .post, "/v1/profiles/u1/grants", body: #"{"tier":"pro","for":"30d","kind":"promotion"}"#)
      #expect(given.status == 201)
      let info = try await app.read("u1")
      #expect(info.active == ["pro"])
      let entitlement = try #require(info.subscriber.entitlements["pro"])
      let subscription = try #require(info.subscriber.subscriptions[entitlement.productIdentifier])
      #expect(subscription.store == "promotional" && entitlement.expiresDate == Self.start + 30 * 86_400)
    }
  }

  @Test func `a state that is held lasts until the hold is over`() async throws {
    try await run { app, store, _, clock async throws in
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

  // MARK: Trouble

  @Test func `a purchase during an outage is finished where it is granted, and kept where it is not`() async throws {
    try await run { app, store, _, _ async throws in
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
    try await run(["provisional": "0"], deadline: "2s") { app, store, _, _ async throws in
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

  @Test func `whatever is wrong but the purchase keeps it in the queue`() async throws {
    try await run { app, store, _, _ async throws in
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

  @Test func `while the dialect is off, purchases are kept`() async throws {
    try await run(dialects: []) { app, store, _, _ async throws in
      for key in [RunningService.publicKey, RunningService.serviceKey, nil] {
        let app = RevenueCatApp(service: app.service, key: key)
        let answer = try await app.post(try store.simulator.issueReceipt(.renewing).receiptData)
        #expect(answer.status == 503 && answer.header("Retry-After") == "3600")
      }
      let request = "GET /v1/subscribers/u1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
      #expect(try await RawClient.exchange(port: app.service.port, [request]).hasPrefix("HTTP/1.1 404"))
    }
  }

  @Test func `what is the purchase's own fault is final`() async throws {
    try await run(["sandbox": "reject"]) { app, store, _, _ async throws in
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
      try await run(["ownership": policy]) { app, store, _, _ async throws in
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
    let clock = MovingClock(Self.start)
    try await SimulatedStore.run(at: Self.start) { store in
      var settings = Settings(server: ["user_rate_limit": "1"])
      settings.dialects = ["revenuecat"]
      try await RunningService.run(apple: store.apple, settings: settings, now: { clock.date }) { service in
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

  // MARK: Signing in

  @Test func `who signs in keeps what was bought before`() async throws {
    try await run { app, store, profiles, clock async throws in
      let anonymous = RevenueCatApp.anonymous
      #expect(try await app.post(try store.simulator.issueReceipt(.renewing).receiptData, of: anonymous).status == 200)
      clock.advance(by: 60)
      let answer = try await app.identify(anonymous, as: "anna")
      #expect(answer.status == 201)
      let anna = try RevenueCatApp.info(answer)
      #expect(anna.active == ["pro"] && anna.subscriber.originalAppUserID == anonymous)
      #expect(anna.subscriber.firstSeen == Self.start)
      #expect(try await app.service.profile("anna").verdict == "pro active renewing")
      // Both IDs mean one customer from now on.
      var before = try await app.read(anonymous)
      before.requestDate = anna.requestDate
      #expect(before.subscriber == anna.subscriber)
      #expect(try await app.service.profile(RevenueCatApp.encoded(anonymous)).verdict == "pro active renewing")
      try await eventually(clock) { profiles.row("anna")?["subscription_tier"] == .text("pro") }
      #expect(profiles.row(anonymous) == nil)
      // A purchase under the old ID counts for the user.
      let more = try store.simulator.issueReceipt(.lifetime, subscriber: 2).receiptData
      #expect(try RevenueCatApp.info(try await app.post(more, of: anonymous)).active == ["premium"])
      #expect(try await app.service.profile("anna").verdict == "premium active lifetime")
      #expect(try await app.identify(anonymous, as: "anna").status == 200)
    }
  }

  @Test func `two named users are never joined`() async throws {
    try await run { app, store, _, _ async throws in
      #expect(try await app.post(try store.simulator.issueReceipt(.renewing).receiptData, of: "anna").status == 200)
      let answer = try await app.identify("anna", as: "ben")
      #expect(answer.status == 201)
      #expect(try RevenueCatApp.info(answer).active.isEmpty)
      #expect(try await app.read("anna").active == ["pro"])
      // An anonymous ID that is anna's already cannot be made ben's.
      #expect(try await app.identify(RevenueCatApp.anonymous, as: "anna").status == 200)
      #expect(try RevenueCatApp.info(try await app.identify(RevenueCatApp.anonymous, as: "ben")).active.isEmpty)
      #expect(try await app.read(RevenueCatApp.anonymous).active == ["pro"])
    }
  }

  @Test func `the alias of older SDKs joins as well`() async throws {
    try await run { app, store, _, _ async throws in
      let id = RevenueCatApp.anonymous
      #expect(try await app.post(try store.simulator.issueReceipt(.renewing).receiptData, of: id).status == 200)
      let answer = try await app.send(
        .post, "/v1/subscribers/\(RevenueCatApp.encoded(id))/alias", #"{"new_app_user_id":"anna"}"#)
      #expect(answer.status == 200 && answer.text == "{}\n")
      #expect(try await app.read("anna").active == ["pro"])
    }
  }

  @Test func `what was given to the anonymous, and a receipt that waits, come along`() async throws {
    try await run { app, store, _, clock async throws in
      let id = RevenueCatApp.anonymous
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      #expect(try await app.post(try store.simulator.issueReceipt(.renewing).receiptData, of: id).status == 200)
      let given = try await app.service.send(
        .post, "/v1/profiles/\(RevenueCatApp.encoded(id))/grants", body: #"{"tier":"premium","for":"1h"}"#)
      #expect(given.status == 201)
      #expect(try RevenueCatApp.info(try await app.identify(id, as: "anna")).active == ["premium"])
      clock.advance(by: 2 * 3600)
      #expect(try await app.read("anna").active == ["pro"])
      store.simulator.setTrouble(nil)
      clock.advance(by: 2 * 3600)
      store.simulator.setClock(clock.date)
      try await eventually(clock) { try await app.service.ledger.backlog(at: clock.date).pendingReceipts == 0 }
      let settled = try await app.service.profile("anna")
      #expect(settled.verdict == "pro active renewing" && settled["provisional"] == "false")
    }
  }

  // MARK: The rest

  @Test func `attributes are kept, the newest by the device's clock`() async throws {
    try await run { app, _, _, _ in
      func set(_ body: String) async throws -> Answer {
        try await app.send(.post, "/v1/subscribers/u1/attributes", body)
      }
      #expect(
        try await set(
          #"{"attributes":{"$email":{"value":"a@example.com","updated_at_ms":20},"my\/name":{"value":"x","updated_at_ms":20.0}}}"#
        ).text == "{}\n")
      #expect(try await set(#"{"attributes":{"$email":{"value":"old@example.com","updated_at_ms":10}}}"#).status == 200)
      let kept = try await app.service.ledger.attributes(of: "u1")
      #expect(kept["$email"]?.value == "a@example.com" && kept["my/name"]?.value == "x")
      _ = try await set(#"{"attributes":{"$email":{"value":null,"updated_at_ms":30}}}"#)
      #expect(try await app.service.ledger.attributes(of: "u1")["$email"]?.value == nil)
      let refused = try await set(
        #"{"attributes":{"9":{"value":"x","updated_at_ms":1},"long":{"value":"\#(String(repeating: "x", count: 501))","updated_at_ms":1}}}"#
      )
      #expect(refused.status == 200 && refused.text.contains(#""key_name":"9""#))
      #expect(refused.text.contains(#""key_name":"long""#))
      #expect(try await app.service.ledger.attributes(of: "u1").count == 2)
    }
  }

  @Test func `offerings and the mapping are the catalog's`() async throws {
    let products = ["com.example.app.coins": "{ kind: consumable }"]
    try await run(products: products) { app, _, _, _ in
      let mapping = try await app.send(.get, "/v1/product_entitlement_mapping").text
      #expect(
        mapping.contains(
          #""com.example.app.pro.monthly":{"base_plan_id":null,"entitlements":["pro"],"#
            + #""product_identifier":"com.example.app.pro.monthly"}"#))
      #expect(mapping.contains(#""com.example.app.coins":{"base_plan_id":null,"entitlements":[]"#))
      let offerings = try await app.send(.get, "/v1/subscribers/u1/offerings")
      #expect(
        offerings.text
          == #"{"current_offering_id":null,"offerings":[],"placements":{"fallback_offering_id":null,"offering_ids_by_placement":{}},"targeting":null}"#
          + "\n")
    }
    try await SimulatedStore.run(at: Self.start) { store in
      var settings = Settings(catalog: [
        "offerings":
          "{ default: { current: true, packages: { $rc_monthly: com.example.app.pro.monthly }, "
          + "metadata: { best_value: $rc_monthly } } }"
      ])
      settings.dialects = ["revenuecat"]
      try await RunningService.run(apple: store.apple, settings: settings, now: { Self.start }) { service in
        let text = try await RevenueCatApp(service: service).send(.get, "/v1/subscribers/u1/offerings").text
        #expect(text.hasPrefix(#"{"current_offering_id":"default","offerings":[{"description":"default""#))
        #expect(
          text.contains(
            #""packages":[{"identifier":"$rc_monthly","platform_product_identifier":"com.example.app.pro.monthly"}]"#))
        #expect(text.contains(#""metadata":{"best_value":"$rc_monthly"}"#))
      }
    }
  }

  @Test func `an introductory price that was had is not to be had again`() async throws {
    try await run { app, store, _, _ async throws in
      #expect(try await app.post(try store.simulator.issueReceipt(.trial).receiptData).status == 200)
      let answer = try await app.send(
        .post, "/v1/subscribers/u1/intro_eligibility",
        #"{"product_identifiers":["com.example.app.pro.monthly","other"],"fetch_token":"x"}"#)
      #expect(answer.text == #"{"com.example.app.pro.monthly":false,"other":null}"# + "\n")
    }
  }

  @Test func `what is not offered is answered politely`() async throws {
    try await run { app, _, _, _ in
      let polite: [(TransportRequest.Method, String, String?, Int, String)] = [
        (.get, "/v1/health", nil, 200, "{}\n"),
        (.get, "/v1/subscribers/u1/virtual_currencies", nil, 200, #"{"virtual_currencies":{}}"# + "\n"),
        (.get, "/v1/subscribers/u1/health_report_availability", nil, 200, #"{"report_logs":false}"# + "\n"),
        (.post, "/v1/subscribers/u1/attribution", "{}", 200, "{}\n"),
        (.post, "/v1/subscribers/u1/adservices_attribution", "{}", 200, "{}\n"),
        (.post, "/v1/diagnostics", #"{"entries":[]}"#, 200, "{}\n"),
        (.post, "/v1/events", #"{"events":[]}"#, 200, "{}\n"),
      ]
      for (method, path, body, status, text) in polite {
        let answer = try await app.send(method, path, body)
        #expect(answer.status == status && answer.text == text, "\(path): \(answer.status) \(answer.text)")
      }
      let offers = try await app.send(
        .post, "/v1/offers", #"{"generate_offers":[{"offer_id":"o","product_id":"p"}],"app_user_id":"u1"}"#)
      #expect(offers.status == 200 && offers.text.contains(#""signature_error":{"code":7226"#))
    }
    // These have no operation of their own in the document, so that their shape is looked at here.
    try await run { app, _, _, _ in
      for path in [
        "/v1/config/app", "/rcbilling/v1/branding", "/v1/customercenter/u1", "/v1/subscribers/redeem_purchase",
      ] {
        let answer = try await RawClient.exchange(
          port: app.service.port,
          ["POST \(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"])
        #expect(answer.hasPrefix("HTTP/1.1 404") && answer.contains(#""code":7259"#), "\(path)")
      }
    }
  }

  @Test func `the SDK for the web may call from any page`() async throws {
    try await run { app, _, _, _ in
      let preflight = try await RawClient.exchange(
        port: app.service.port,
        [
          "OPTIONS /v1/subscribers/u1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\nOrigin: https://app.example\r\n"
            + "Access-Control-Request-Method: GET\r\nAccess-Control-Request-Headers: authorization, x-platform\r\n\r\n"
        ])
      #expect(preflight.hasPrefix("HTTP/1.1 204"))
      #expect(preflight.lowercased().contains("access-control-allow-origin: *"))
      #expect(preflight.lowercased().contains("access-control-allow-headers: authorization, x-platform"))
      let answer = try await app.send(.get, "/v1/subscribers/u1")
      #expect(answer.header("Access-Control-Allow-Origin") == "*")
      let refused = try await RevenueCatApp(service: app.service, key: nil).send(.get, "/v1/subscribers/u1")
      #expect(refused.status == 401 && refused.header("Access-Control-Allow-Origin") == "*")
      // Our own routes are for no page.
      #expect(try await app.service.profile("u1").header("Access-Control-Allow-Origin") == nil)
    }
  }

  // MARK: Who may

  @Test func `a public key is for these routes, and these routes are for public keys and servers`() async throws {
    try await run { app, _, _, clock in
      let user = try TokenMint.user("6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11", at: clock.date)
      let own: [(TransportRequest.Method, String, String?)] = [
        (.get, "/v1/subscribers/u1", nil), (.get, "/v1/subscribers/u1/offerings", nil),
        (.post, "/v1/subscribers/identify", #"{"app_user_id":"u1","new_app_user_id":"u1"}"#),
        (.post, "/v1/subscribers/u1/alias", #"{"new_app_user_id":"u1"}"#),
        (.post, "/v1/subscribers/u1/attributes", #"{"attributes":{}}"#),
        (.post, "/v1/subscribers/u1/restore/eligibility", "{}"),
        (.post, "/v1/subscribers/u1/intro_eligibility", "{}"),
        (.get, "/v1/subscribers/u1/virtual_currencies", nil),
        (.get, "/v1/subscribers/u1/health_report_availability", nil),
        (.post, "/v1/subscribers/u1/attribution", "{}"), (.post, "/v1/subscribers/u1/adservices_attribution", "{}"),
        (.get, "/v1/product_entitlement_mapping", nil), (.post, "/v1/offers", "{}"),
        (.post, "/v1/diagnostics", "{}"), (.post, "/v1/events", "{}"),
        (.post, "/v1/receipts", #"{"app_user_id":"u1","app_transaction":"x"}"#),
      ]
      for (method, path, body) in own {
        for (key, status) in [
          (RunningService.publicKey, 200), (RunningService.serviceKey, 200), (RunningService.supportKey, 403),
          (user, 403), ("appl_unknown1", 401), (nil, 401),
        ] as [(String?, Int)] {
          let answer = try await RevenueCatApp(service: app.service, key: key).send(method, path, body)
          let expected = path == "/v1/receipts" && status >= 400 ? 503 : status
          #expect([expected, expected == 200 ? 201 : expected].contains(answer.status), "\(path) \(answer.status)")
          if expected >= 400 { #expect(answer["code"] == "7225") }
        }
      }
      let native = app.service.routes.filter { route in
        !own.contains { $0.1 == route.path } && !route.path.hasPrefix("/v1/subscribers") && route.method != "HEAD"
      }
      let open = [
        "/livez", "/readyz", "/metrics", "/openapi.yaml", "/", "/problems/{code}", "/support", "/support/page.css",
        "/support/page.js", "/v1/plans", "/v1/notifications/app-store", "/v1/health",
      ]
      for route in native where !open.contains(route.path) {
        let path = route.path.replacing("{user_id}", with: "u1").replacing(/{[a-z_]+}/, with: "7")
        let answer = try await RawClient.exchange(
          port: app.service.port,
          [
            "\(route.method) \(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n"
              + "Authorization: Bearer \(RunningService.publicKey)\r\nContent-Length: 2\r\n\r\n{}"
          ])
        let status = answer.split(separator: " ").dropFirst().first ?? ""
        #expect(["403", "405"].contains(status), "\(route.method) \(route.path): \(status)")
      }
    }
  }
}
