import Entitlements
import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer
@testable import Validation

/// RevenueCat's webhooks, as they come over HTTP.
@Suite struct RevenueCatTests {
  private let clock = MovingClock()

  private static let day = 86_400.0
  private static let header = "Bearer what the dashboard has"

  private static func settings(policy: [String: String] = [:], dialects: [String] = []) -> Settings {
    var settings = Settings(appStore: ["deadline": "1m"], policy: policy)
    settings.dialects = dialects
    settings.revenueCat = ["authorization_file": [header]]
    return settings
  }

  /// In place of a member that is left out.
  private struct Absent: Sendable {}

  /// An event, with the members that RevenueCat always sends.
  private static func event(
    _ type: String, id: String = UUID().uuidString, at days: Double = 0, user: String = "anna",
    store: String = "PLAY_STORE", original: String = "GPA.1", transaction: String? = nil,
    product: String = "com.example.app.pro.monthly:base", from begin: Double = 0, until end: Double? = 30,
    environment: String = "PRODUCTION", _ more: [String: any Sendable] = [:]
  ) -> String {
    func milliseconds(_ days: Double) -> Int { Int((noon.timeIntervalSince1970 + days * day) * 1_000) }
    var members: [String: Any] = [
      "id": id, "type": type, "app_id": "app123", "event_timestamp_ms": milliseconds(days), "app_user_id": user,
      "original_app_user_id": user, "aliases": [user], "store": store, "environment": environment,
      "original_transaction_id": original, "transaction_id": transaction ?? "\(original)..\(Int(begin))",
      "product_id": product, "entitlement_ids": ["other"], "period_type": "NORMAL",
      "purchased_at_ms": milliseconds(begin), "expiration_at_ms": end.map { milliseconds($0) as Any } ?? NSNull(),
      "price": 4.99, "price_in_purchased_currency": 4.99, "currency": "EUR", "country_code": "DE",
      "subscriber_attributes": ["$email": ["value": "a@example.com", "updated_at_ms": 1]], "new_member": [1, 2],
    ]
    for (name, value) in more {
      if value is Absent { members.removeValue(forKey: name) } else { members[name] = value as Any }
    }
    let body: [String: Any] = ["api_version": "1.0", "event": members]
    let data = (try? JSONSerialization.data(withJSONObject: body)) ?? Data()
    return String(decoding: data, as: UTF8.self)
  }

  private static func post(
    _ body: String, to service: RunningService, header: String? = header
  ) async throws -> Answer {
    try await service.send(
      .post, "/v1/notifications/revenuecat", key: nil, body: body,
      headers: header.map { [TransportHeader("Authorization", $0)] } ?? [])
  }

  private static func take(_ body: String, _ service: RunningService) async throws -> String {
    let answer = try await post(body, to: service)
    #expect(answer.status == 200, "\(answer.text)")
    return answer["outcome"] ?? "-"
  }

  /// `pro active renewing until 2024-07-15`
  private static func state(of user: String = "anna", _ service: RunningService) async throws -> String {
    let answer = try await service.profile(user)
    let until = answer["access_until"].flatMap { $0 == "null" ? nil : " until \($0.prefix(10))" } ?? ""
    return answer.verdict + until + (answer["stale"] == "true" ? " stale" : "")
      + (answer["provisional"] == "true" ? " provisional" : "")
  }

  // MARK: The edge

  @Test func `without a secret there is no such path`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      let answer = try await service.exchange(
        "POST /v1/notifications/revenuecat HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
      #expect(answer.hasPrefix("HTTP/1.1 404"), "\(answer)")
    }
  }

  @Test func `a request that is not RevenueCat's is refused, and leaves no trace`() async throws {
    try await RunningService.run(apple: .unreachable, settings: Self.settings()) { service in
      for header in [nil, "", "Bearer other", RunningService.serviceKey] {
        #expect(try await Self.post(Self.event("INITIAL_PURCHASE"), to: service, header: header).status == 401)
      }
      let state = try await Self.state(service)
      #expect(state == "free active no_purchases")
      #expect(!service.log.text.contains("what the dashboard has"))
      let metrics = try await service.send(.get, "/metrics", key: nil).text
      #expect(metrics.contains(#"countersign_revenuecat_events_total{outcome="refused"} 4"#))
    }
  }

  @Test func `signed events are taken, and no body is read before it is proven`() async throws {
    var settings = Settings()
    settings.revenueCat = ["signing_secret_file": ["old-secret", "new-secret"]]
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      func post(_ body: String, by secret: String, late: Int = 0) async throws -> Answer {
        let signature = revenueCatSignature(
          Array(body.utf8), by: secret, at: 1_718_452_800 - late)
        return try await service.send(
          .post, "/v1/notifications/revenuecat", key: nil, body: body,
          headers: [TransportHeader("X-RevenueCat-Webhook-Signature", signature)])
      }
      #expect(try await post(Self.event("INITIAL_PURCHASE"), by: "old-secret")["outcome"] == "recorded")
      #expect(try await post(Self.event("UNCANCELLATION", at: 0.1), by: "new-secret", late: 299).status == 200)
      #expect(try await post(Self.event("EXPIRATION", at: 0.2), by: "other-secret").status == 401)
      #expect(try await post(Self.event("EXPIRATION", at: 0.2), by: "new-secret", late: 301).status == 401)
      #expect(try await post("no JSON at all", by: "other-secret").status == 401)
      #expect(try await post("no JSON at all", by: "new-secret").status == 400)
      let state = try await Self.state(service)
      #expect(state.hasPrefix("pro active renewing"))
    }
  }

  @Test func `an event that cannot be read is answered 400, and kept`() async throws {
    let bodies = [
      "", "[]", "{}", #"{"event":7}"#, #"{"event":{"id":"1","event_timestamp_ms":1}}"#,
      #"{"event":{"id":"1","type":"RENEWAL"}}"#, #"{"event":{"id":"1","type":"TEST","event_timestamp_ms":"now"}}"#,
      #"{"event":{"id":"1","type":"RENEWAL","event_timestamp_ms":1,"app_user_id":"u","store":"STRIPE"}}"#,
    ]
    try await RunningService.run(apple: .unreachable, settings: Self.settings()) { service in
      for body in bodies {
        let answer = try await Self.post(body, to: service)
        #expect(answer.status == 400 && answer["code"] == "malformed_request", "\(answer.text)")
        #expect(try await service.ledger.hasRefused(body), "\(body)")
      }
    }
  }

  @Test func `an event of the far future counts as of its arrival, and the next one after it`() async throws {
    let clock = MovingClock(noon.addingTimeInterval(0.123_456_789))
    try await RunningService.run(apple: .unreachable, settings: Self.settings(), now: { clock.date }) {
      service async throws in
      let bought = Self.event("INITIAL_PURCHASE", ["event_timestamp_ms": 78_788_000_000_000])
      #expect(try await Self.take(bought, service) == "recorded")
      #expect(try await Self.state(service).hasPrefix("pro active renewing"))
      clock.advance(by: 0.2 * Self.day)
      let refund = Self.event("CANCELLATION", at: 0.1, ["cancel_reason": "CUSTOMER_SUPPORT"])
      #expect(try await Self.take(refund, service) == "recorded")
      #expect(try await Self.state(service).hasPrefix("free"))
    }
  }

  @Test func `an event is kept once, and nothing is acknowledged while the ledger is away`() async throws {
    try await RunningService.run(apple: .unreachable, settings: Self.settings()) { service in
      let first = Self.event("INITIAL_PURCHASE", id: "one")
      #expect(try await Self.take(first, service) == "recorded")
      let history = try await service.send(.get, "/v1/profiles/anna/history", key: RunningService.supportKey).text
      #expect(try await Self.take(first, service) == "duplicate")
      #expect(
        try await service.send(.get, "/v1/profiles/anna/history", key: RunningService.supportKey).text == history)
      await service.ledger.close()
      let answer = try await Self.post(Self.event("RENEWAL", at: 30, from: 30, until: 60), to: service)
      #expect(answer.status == 503 && answer["code"] == "ledger_unavailable")
    }
  }

  // MARK: Other stores

  @Test func `events without proof are listed, one for each hour`() async throws {
    try await RunningService.run(apple: .unreachable, settings: Self.settings(), now: { clock.date }) { service in
      func refused() async throws -> [[String: Any]] {
        let answer = try await service.send(.get, "/v1/notifications/refused", key: RunningService.supportKey)
        return try #require(answer.object["notifications"] as? [[String: Any]])
      }
      for _ in 0..<3 { #expect(try await Self.post("{}", to: service, header: "Bearer a guess").status == 401) }
      #expect(try await refused().count == 1)
      clock.advance(by: 3_600)
      #expect(try await Self.post("{}", to: service, header: nil).status == 401)
      let list = try await refused()
      #expect(list.count == 2 && list.allSatisfy { $0["authentic"] as? Bool == false })
      #expect(list.first?["received_at"] as? String == "2024-06-15T13:00:00Z")
      // An event that RevenueCat sent, and that cannot be read, is of another kind.
      #expect(try await Self.post("{}", to: service).status == 400)
      #expect(try await refused().first?["authentic"] as? Bool == true)
    }
  }

  @Test func `a purchase at Google's is Google's in each dialect, and none of the App Store's`() async throws {
    var settings = Self.settings(dialects: ["revenuecat", "cordova", "subscriptions_api"])
    settings.jwt = ["secret": TokenMint.secret]
    try await RunningService.besideStore(settings: settings) { service, store in
      let user = DialectBench.user
      #expect(
        try await Self.take(
          Self.event("INITIAL_PURCHASE", user: user, product: "com.example.app.premium.monthly"), service)
          == "recorded")
      let token = try TokenMint.user(user, at: noon)
      let current = try await service.send(.get, "/api/subscriptions/current", key: token)
      let subscription = current.object["subscription"] as? [String: Any]
      #expect(subscription?["externalProvider"] as? String == "play_store")
      let cancelled = try await service.send(.post, "/api/subscriptions/cancel", key: token)
      #expect(cancelled["managementUrl"] == "https://play.google.com/store/account/subscriptions")
      let customer = try RevenueCatApp.info(
        try await service.send(.get, "/v1/subscribers/\(user)", key: RunningService.publicKey))
      #expect(customer.subscriber.managementURL == "https://play.google.com/store/account/subscriptions")
      #expect(customer.active == ["pro", "premium"])
      let found = try await service.send(.get, "/v1/lookup/play_store%3AGPA.1", key: RunningService.supportKey)
      #expect(found.text.contains(user), "\(found.text)")
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      let answer = try await service.cordova(try DialectBench.cordova(receipt: receipt), key: token)
      #expect(answer.purchases.map { $0.prefix(11) } == ["pro.monthly"], "\(answer.text)")
      // Both stores have something of the customer's now; the page is that of the deciding one.
      let both = try RevenueCatApp.info(
        try await service.send(.get, "/v1/subscribers/\(user)", key: RunningService.publicKey))
      #expect(Set(both.subscriber.subscriptions.values.map(\.store)) == ["app_store", "play_store"])
      #expect(both.subscriber.managementURL == "https://play.google.com/store/account/subscriptions")
    }
  }

  @Test func `Google Play's base plan stands beside the product, and of two the newer is listed`() async throws {
    try await RunningService.run(apple: .unreachable, settings: Self.settings(dialects: ["revenuecat"])) { service in
      let product = "com.example.app.pro.monthly"
      // The yearly plan ends later, and was bought before.
      for (plan, begin, end) in [("yearly", -20, 345), ("base", -10, 20)] as [(String, Double, Double)] {
        let bought = Self.event(
          "INITIAL_PURCHASE", original: "GPA.\(plan)", product: "\(product):\(plan)", from: begin, until: end)
        #expect(try await Self.take(bought, service) == "recorded")
        let info = try RevenueCatApp.info(
          try await service.send(.get, "/v1/subscribers/anna", key: RunningService.publicKey))
        #expect(info.subscriber.subscriptions.mapValues(\.productPlanIdentifier) == [product: plan])
        #expect(info.subscriber.subscriptions[product]?.expiresDate == noon + end * Self.day)
        #expect(info.active == ["pro"])
        // The yearly plan gives access the longest.
        let entitlement = try #require(info.subscriber.entitlements["pro"])
        #expect(entitlement.productIdentifier == product && entitlement.productPlanIdentifier == "yearly")
      }
    }
  }

  @Test func `a prepaid period does not renew, and nobody unsubscribed`() async throws {
    try await RunningService.run(apple: .unreachable, settings: Self.settings(dialects: ["revenuecat"])) { service in
      let bought = Self.event("INITIAL_PURCHASE", ["period_type": "PREPAID"])
      #expect(try await Self.take(bought, service) == "recorded")
      #expect(try await service.profile("anna")["will_renew"] == "false")
      let info = try RevenueCatApp.info(
        try await service.send(.get, "/v1/subscribers/anna", key: RunningService.publicKey))
      let subscription = try #require(info.subscriber.subscriptions.values.first)
      #expect(subscription.periodType == "prepaid" && subscription.unsubscribeDetectedAt == nil)
      #expect(info.active == ["pro"])
    }
  }

  @Test func `a lost expiration is held, then unproven, and the app's row follows`() async throws {
    try await ProfileStoreDouble.running { rows in
      var settings = Self.settings()
      settings.profileStore = .store(rows.url, deadline: "1m")
      try await RunningService.run(apple: .unreachable, settings: settings, now: { clock.date }) { service in
        #expect(try await Self.take(Self.event("INITIAL_PURCHASE"), service) == "recorded")
        #expect(rows.row("anna")?["subscription_tier"] == .text("pro"))
        clock.advance(by: 31 * Self.day)
        #expect(try await Self.state(service) == "pro active renewing until 2024-07-15 stale")
        clock.advance(by: 7 * Self.day)
        #expect(try await Self.state(service) == "free expired unproven stale")
        try await eventually(clock) { rows.row("anna")?["subscription_tier"] == .text("free") }
        // And it comes back with the next renewal.
        #expect(try await Self.take(Self.event("RENEWAL", at: 38, from: 30, until: 60), service) == "recorded")
        #expect(rows.row("anna")?["subscription_tier"] == .text("pro"))
      }
    }
  }

  @Test func `an event with another user counts for the owner`() async throws {
    try await RunningService.run(apple: .unreachable, settings: Self.settings()) { service in
      _ = try await Self.take(Self.event("INITIAL_PURCHASE", at: -40, from: -40, until: -10), service)
      let renewal = Self.event("RENEWAL", at: -10, user: "bert", from: -10, until: 20)
      #expect(try await Self.take(renewal, service) == "recorded_for_owner")
      #expect(try await Self.state(service) == "pro active renewing until 2024-07-05")
      #expect(try await Self.state(of: "bert", service) == "free active no_purchases")
    }
  }

  @Test func `while RevenueCat cannot reach a store the user has what they last had there`() async throws {
    let settings = Self.settings(policy: ["provisional": "24h"])
    try await RunningService.run(apple: .unreachable, settings: settings, now: { clock.date }) { service async throws in
      let grant = { (user: String, id: String, days: Double) in
        #"{"event":{"id":"\#(id)","type":"TEMPORARY_ENTITLEMENT_GRANT","app_user_id":"\#(user)","store":"PLAY_STORE","#
          + #""event_timestamp_ms":\#(Int((noon.timeIntervalSince1970 + days * Self.day) * 1_000))}}"#
      }
      // Neither product nor entitlement, and nobody that is known.
      #expect(try await Self.take(grant("anna", "g1", 0), service) == "noted")
      #expect(try await Self.state(service) == "free active no_purchases")
      for body in [
        Self.event("INITIAL_PURCHASE", at: -40, from: -40, until: -10),
        Self.event("EXPIRATION", at: -10, from: -40, until: -10),
      ] { #expect(try await Self.take(body, service) == "recorded") }
      #expect(try await Self.take(grant("anna", "g2", 0), service) == "recorded")
      #expect(try await Self.state(service) == "pro active renewing until 2024-06-16 provisional")
      clock.advance(by: 1.1 * Self.day)
      #expect(try await service.profile("anna")["tier"] == "free")
      // The purchase takes its place.
      #expect(try await Self.take(grant("anna", "g3", 1), service) == "recorded")
      #expect(try await Self.take(Self.event("EXPIRATION", at: 1.05, from: -40, until: -10), service) == "recorded")
      #expect(try await service.profile("anna")["tier"] == "free")
    }
  }

  @Test func `a new buyer has the product of a temporary grant, in any order of arrival`() async throws {
    let settings = Self.settings(policy: ["provisional": "24h"])
    let pro = "pro active renewing until 2024-06-16 provisional"
    let forever = ["entitlement_ids": ["pro"]] as [String: any Sendable]
    @Sendable func event(
      _ user: String, _ type: String = "TEMPORARY_ENTITLEMENT_GRANT", at days: Double = 0,
      product: String = "com.example.app.pro.monthly:base", from begin: Double = 0, until end: Double? = 30,
      _ more: [String: any Sendable] = [:]
    ) -> String {
      Self.event(
        type, at: days, user: user, original: "GPA.\(user)", product: product, from: begin, until: end, more)
    }
    try await RunningService.run(apple: .unreachable, settings: settings) { service async throws in
      for (user, grant, expected) in [
        ("u1", event("u1", until: 23.0 / 24, forever), pro),
        // No longer than the policy lets it, and by the entitlement where the product is not listed, or not named.
        ("u2", event("u2", product: "unlisted", until: 30, forever), pro),
        ("u3", event("u3", until: nil, forever.merging(["product_id": NSNull()]) { $1 }), pro),
        ("u4", event("u4", product: "unlisted", until: 1), "free active no_purchases"),
        ("u5", event("u5", from: -2, until: -1, forever), "free active no_purchases"),
      ] {
        #expect(try await Self.take(grant, service) == (expected == pro ? "recorded" : "noted"))
        #expect(try await Self.state(of: user, service) == expected, "\(grant)")
      }
      let first = try await service.profile("u1")
      #expect(first["access_until"] == "2024-06-16T11:00:00Z" && first["source"] == "revenuecat")
      #expect(first["original_transaction_id"] == "play_store:GPA.u1")
      #expect(first["product_id"] == "com.example.app.pro.monthly:base")
      // RevenueCat's word once it has reached the store takes the grant's place, whatever comes first.
      for (at, type, expected) in [
        (0.0, "INITIAL_PURCHASE", "pro active renewing until 2024-07-15"), (0.1, "EXPIRATION", "free expired unknown"),
      ] {
        for isGrantFirst in [true, false] {
          let user = "\(type)-\(isGrantFirst)"
          let bodies = [event(user, until: 23.0 / 24, forever), event(user, type, at: at)]
          for body in isGrantFirst ? bodies : bodies.reversed() { _ = try await Self.take(body, service) }
          #expect(try await Self.state(of: user, service) == expected)
        }
      }
    }
  }

  @Test func `temporary access to a purchase at Apple's counts until Apple has answered`() async throws {
    var settings = Self.settings(policy: ["provisional": "24h"])
    settings.appStore["deadline"] = "20s"
    try await RunningService.besideStore(
      withServerAPI: true, settings: settings, now: { clock.date }
    ) { service, store in
      func grant(_ id: String, user: String = "anna") -> String {
        Self.event(
          "TEMPORARY_ENTITLEMENT_GRANT", user: user, store: "APP_STORE", transaction: id,
          product: "com.example.app.pro.monthly", until: 23.0 / 24, ["original_transaction_id": Absent()])
      }
      let bought = try store.simulator.issueTransaction(.renewing, subscriber: 1)
      store.simulator.setTrouble(.http503)
      #expect(try await Self.take(grant(bought.originalTransactionID), service) == "hint")
      #expect(try await Self.state(service) == "pro active renewing until 2024-06-16 provisional")
      store.simulator.setTrouble(nil)
      try await eventually(clock) { try await service.profile("anna")["provisional"] == "false" }
      #expect(try await Self.state(service).hasPrefix("pro active renewing"))
      // RevenueCat could not reach Apple: that Apple does not know the ID says nothing.
      #expect(try await Self.take(grant("7777", user: "carl"), service) == "hint")
      #expect(try await Self.state(of: "carl", service) == "pro active renewing until 2024-06-16 provisional")
    }
  }

  @Test func `a subscription's event without an end takes the catalog's period, or has no effect`() async throws {
    var settings = Self.settings()
    settings.products["com.example.app.pro.monthly"] = "{ tier: pro, period: P1M }"
    try await RunningService.run(apple: .unreachable, settings: settings) { service in
      func expect(_ user: String, _ expected: String, _ bodies: String...) async throws {
        for body in bodies { #expect(try await Self.take(body, service) == "recorded") }
        #expect(try await Self.state(of: user, service) == expected)
      }
      let month = "pro active renewing until 2024-07-15"
      try await expect("a", month, Self.event("INITIAL_PURCHASE", user: "a", original: "GPA.a", until: nil))
      try await expect(
        "b", month, Self.event("INITIAL_PURCHASE", at: -25, user: "b", original: "GPA.b", from: -25, until: 5),
        Self.event("RENEWAL", user: "b", original: "GPA.b", ["expiration_at_ms": Absent()]))
      // No period in the catalog: nothing is known of the end.
      let premium = "com.example.app.premium.monthly"
      try await expect(
        "c", "free active no_purchases",
        Self.event("INITIAL_PURCHASE", user: "c", original: "GPA.c", product: premium, until: nil))
      try await expect(
        "d", "premium active renewing until 2024-06-20",
        Self.event(
          "INITIAL_PURCHASE", at: -25, user: "d", original: "GPA.d", product: premium, from: -25, until: 5),
        Self.event("RENEWAL", user: "d", original: "GPA.d", product: premium, until: nil))
      // The catalog says that it never ends.
      try await expect(
        "e", "premium active lifetime",
        Self.event("INITIAL_PURCHASE", user: "e", original: "GPA.e", product: "com.example.app.forever", until: nil))
    }
  }

  // MARK: Apple's

  @Test func `an event of the App Store has Apple asked, whose answer counts`() async throws {
    let settings = Self.settings(policy: ["provisional": "24h"])
    try await RunningService.besideStore(withServerAPI: true, settings: settings) { service, store in
      let issued = try store.simulator.issueTransaction(.renewalOff)
      let id = issued.originalTransactionID
      // RevenueCat calls it premium and renewing; Apple knows better.
      let event = Self.event(
        "INITIAL_PURCHASE", store: "APP_STORE", original: id, product: "com.example.app.premium.monthly")
      #expect(try await Self.take(event, service) == "hint")
      #expect(try await Self.state(service).hasPrefix("pro cancelled renewal_off"))
      #expect(try await service.profile("anna")["source"] == "ledger")
      // An end that Apple does not know of ends nothing; neither does it for somebody else.
      let end = Self.event("EXPIRATION", at: 0.1, user: "bert", store: "APP_STORE", original: id)
      #expect(try await Self.take(end, service) == "hint")
      #expect(try await Self.state(service).hasPrefix("pro cancelled renewal_off"))
      #expect(try await Self.state(of: "bert", service) == "free active no_purchases")
      #expect(store.simulator.calls.serverAPI.total > 1)
      // A purchase that Apple does not know is nobody's.
      let unknown = Self.event("INITIAL_PURCHASE", user: "carl", store: "APP_STORE", original: "7777")
      #expect(try await Self.take(unknown, service) == "hint")
      #expect(try await Self.state(of: "carl", service) == "free active no_purchases")
    }
  }

  @Test func `a purchase that Apple does not find yet is asked about again for a day`() async throws {
    let settings = Self.settings(policy: ["provisional": "24h"])
    try await RunningService.besideStore(
      withServerAPI: true, settings: settings, now: { clock.date }
    ) { service, store in
      let order = ReceiptOrder(scenario: .renewing, subscriber: 9)
      let id = try ReceiptIssuer(pki: try DevelopmentPKI()).issueTransaction(order, at: Timestamp(clock.date))
        .originalTransactionID
      for (user, id) in [("anna", id), ("carl", "7777")] {
        let bought = Self.event("INITIAL_PURCHASE", user: user, store: "APP_STORE", original: id)
        #expect(try await Self.take(bought, service) == "hint")
        #expect(try await Self.state(of: user, service) == "free active no_purchases")
      }
      #expect(try store.simulator.issueTransaction(.renewing, subscriber: 9).originalTransactionID == id)
      try await eventually(clock, step: 30) { try await service.profile("anna")["tier"] == "pro" }
      #expect(!service.log.text.contains("Apple does not confirm a purchase"))
      clock.advance(by: Self.day)
      try await eventually(clock) { service.log.text.contains("Apple does not confirm a purchase") }
      #expect(try await Self.state(of: "carl", service) == "free active no_purchases")
    }
  }

  @Test func `while Apple is away an event raises for a while, and never lowers; Apple settles it`() async throws {
    var settings = Self.settings(policy: ["provisional": "24h"])
    settings.appStore["deadline"] = "20s"
    try await RunningService.besideStore(
      withServerAPI: true, settings: settings, now: { clock.date }
    ) { service, store in
      let known = try store.simulator.issueTransaction(.renewing, subscriber: 1)
      #expect(try await service.validate(known.signedTransaction, user: "bert").status == 200)
      let fresh = try store.simulator.issueTransaction(.renewing, subscriber: 2)
      store.simulator.setTrouble(.http503)
      let bought = Self.event(
        "INITIAL_PURCHASE", store: "APP_STORE", original: fresh.originalTransactionID,
        product: "com.example.app.pro.monthly")
      #expect(try await Self.take(bought, service) == "hint")
      #expect(try await Self.state(service) == "pro active renewing until 2024-06-16 provisional")
      for body in [
        Self.event("EXPIRATION", user: "bert", store: "APP_STORE", original: known.originalTransactionID),
        Self.event(
          "CANCELLATION", user: "bert", store: "APP_STORE", original: known.originalTransactionID,
          ["cancel_reason": "CUSTOMER_SUPPORT"]),
      ] { #expect(try await Self.take(body, service) == "hint") }
      #expect(try await Self.state(of: "bert", service).hasPrefix("pro active renewing"))
      store.simulator.setTrouble(nil)
      try await eventually(clock) { try await service.profile("anna")["provisional"] == "false" }
      #expect(try await Self.state(service).hasPrefix("pro active renewing"))
      #expect(try await Self.state(of: "bert", service).hasPrefix("pro active renewing"))
    }
  }

  @Test func `where Apple can never be asked an event raises for a while, and no longer`() async throws {
    let settings = Self.settings(policy: ["provisional": "24h"])
    try await RunningService.run(apple: .unreachable, settings: settings, now: { clock.date }) { service in
      let bought = Self.event(
        "INITIAL_PURCHASE", store: "APP_STORE", original: "2000000000000001",
        product: "com.example.app.pro.monthly")
      let outcome = try await Self.take(bought, service)
      #expect(outcome == "hint")
      #expect(try await Self.state(service) == "pro active renewing until 2024-06-16 provisional")
      clock.advance(by: 1.1 * Self.day)
      #expect(try await service.profile("anna")["tier"] == "free")
    }
  }
}
