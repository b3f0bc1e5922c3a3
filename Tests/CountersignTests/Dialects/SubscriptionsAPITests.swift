import CountersignAPI
import Entitlements
import Foundation
import HTTPTransport
import Ledger
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import CountersignServer

/// `/api/subscriptions/…` and `/api/health/subscriptions`, as an app and a monitor ask.
@Suite struct SubscriptionsAPITests {
  private static let freeLimits = """
    {"maxChildren":2,"maxFavorites":10,"maxSharedUsers":1,"savedSearchLimit":0,"hasSavedSearches":false,\
    "hasAdvancedFilters":false,"hasCalendarExport":false,"hasInstantAlerts":null,"hasQuestions":true}
    """
  private static let proLimits = """
    {"maxChildren":99,"maxFavorites":999,"maxSharedUsers":99,"savedSearchLimit":10,"hasSavedSearches":true,\
    "hasAdvancedFilters":true,"hasCalendarExport":true,"hasInstantAlerts":null,"hasQuestions":true}
    """
  private static let freePlan =
    #"{"code":"free","name":"Discovery","description":null,"monthlyPrice":0,"annualPrice":0}"#
  private static let proPlan =
    #"{"code":"pro","name":"Family Pro","description":"Everything","monthlyPrice":5.99,"annualPrice":49.99}"#

  private func get(_ service: RunningService, _ path: String, _ user: String = AppAPIBench.anna) async throws -> Answer
  {
    try await service.send(.get, "/api/subscriptions/\(path)", key: try AppAPIBench.token(user))
  }

  private func post(
    _ service: RunningService, _ path: String, _ body: String? = nil, _ user: String = AppAPIBench.anna
  ) async throws -> Answer {
    try await service.send(.post, "/api/subscriptions/\(path)", key: try AppAPIBench.token(user), body: body)
  }

  private func expect(
    _ answer: Answer, _ body: String, status: Int = 200, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    #expect(answer.status == status, sourceLocation: sourceLocation)
    #expect(try AppAPIBench.plain(answer.text) == AppAPIBench.plain(body), sourceLocation: sourceLocation)
  }

  // MARK: Reads

  @Test func `plans are the catalog's tiers with prices and limits, for anybody`() async throws {
    try await AppAPIBench.run { service, _, _ in
      let answer = try await service.send(.get, "/api/subscriptions/plans", key: nil)
      let premiumLimits = Self.proLimits.replacing(#""maxChildren":99"#, with: #""maxChildren":1000000000"#)
      func plan(_ plan: String, _ limits: String) -> String { "\(plan.dropLast()),\"features\":\(limits)}" }
      try expect(
        answer,
        """
        {"success":true,"plans":[\(plan(Self.freePlan, Self.freeLimits)),\(plan(Self.proPlan, Self.proLimits)),
        \(plan(#"{"code":"premium","name":"premium","description":null,"monthlyPrice":null,"annualPrice":null}"#, premiumLimits))]}
        """)
      #expect(answer.header("Cache-Control") == "public, max-age=300")
      let tag = try #require(answer.header("ETag"))
      let again = try await service.send(
        .get, "/api/subscriptions/plans", key: nil, headers: [TransportHeader("If-None-Match", tag)])
      #expect(again.status == 304 && again.body.isEmpty)
    }
  }

  @Test func `a user who never bought has the free plan, its limits and what is counted here`() async throws {
    try await AppAPIBench.run { service, _, _ in
      _ = try await service.send(
        .put, "/v1/profiles/\(AppAPIBench.anna)/usage/children", body: #"{"count":2}"#)
      _ = try await service.send(
        .post, "/v1/profiles/\(AppAPIBench.anna)/usage/questions", body: #"{"amount":1}"#)
      try expect(
        try await get(service, "current"),
        """
        {"success":true,"subscription":null,"plan":\(Self.freePlan),"limits":\(Self.freeLimits),
         "usage":{"childrenCount":2,"favoritesCount":0,"sharedUsersCount":0,"savedSearchesCount":0,"questionsCount":1},
         "isTrialing":false,"trialDaysRemaining":null}
        """)
      try expect(try await get(service, "limits"), #"{"success":true,"limits":\#(Self.freeLimits)}"#)
    }
  }

  @Test func `a check says whether one more may exist, and is no refusal`() async throws {
    try await AppAPIBench.run { service, _, _ in
      func check(_ resource: String, _ allowed: Bool, _ current: Int, _ limit: Int, _ query: String = "") async throws {
        try expect(
          try await get(service, "check/\(resource)\(query)"),
          #"{"success":true,"resource":"\#(resource)","allowed":\#(allowed),"current":\#(current),"limit":\#(limit)}"#)
      }
      try await check("children", true, 0, 2)
      try await check("children", true, 1, 2, "?count=1")
      try await check("children", false, 2, 2, "?count=2")
      try await check("children", false, 1, 2, "?count=1&amount=2")
      try await check("shares", false, 1, 1, "?count=1")
      try await check("shared_users", true, 0, 1)
      try await check("saved-searches", false, 0, 0)
      try await check("questions", true, 0, 2)
      _ = try await service.send(.put, "/v1/profiles/\(AppAPIBench.anna)/usage/children", body: #"{"count":2}"#)
      try await check("children", false, 2, 2)
      for (path, status, error) in [
        ("check/none", 404, "UNKNOWN_FEATURE"), ("check/advanced_filters", 404, "UNKNOWN_FEATURE"),
        ("check/children?count=-1", 400, "MALFORMED_REQUEST"), ("check/questions?count=1", 400, "MALFORMED_REQUEST"),
        ("check/children?count=1&count=2", 400, "MALFORMED_REQUEST"), ("check/%ff", 404, "UNKNOWN_FEATURE"),
        ("feature/none", 404, "UNKNOWN_FEATURE"),
      ] { try AppAPIBench.expect(try await get(service, path), status, error) }
    }
  }

  @Test func `a feature is on by the plan, under each of its names`() async throws {
    let names = [
      ("hasAdvancedFilters", false), ("advanced_filters", false), ("advancedFilters", false),
      ("hasSavedSearches", false), ("savedSearchLimit", false), ("maxChildren", true), ("children", true),
      ("hasQuestions", true),
    ]
    try await AppAPIBench.run { service, _, _ in
      for (name, isFree) in names {
        try expect(
          try await get(service, "feature/\(name)"),
          #"{"success":true,"feature":"\#(name)","hasAccess":\#(isFree)}"#)
      }
      _ = try await service.send(
        .post, "/v1/profiles/\(AppAPIBench.anna)/grants", body: #"{"tier":"pro","for":"1d"}"#)
      for (name, _) in names { #expect(try await get(service, "feature/\(name)")["hasAccess"] == "true", "\(name)") }
    }
  }

  // MARK: Purchases

  @Test func `a verified purchase is the subscription, its plan and its limits, on the next read too`() async throws {
    try await AppAPIBench.run { service, store, _ in
      let receipt = try store.simulator.issueReceipt(.subscriber, subscriber: 1).receiptData
      let answer = try await post(
        service, "verify", #"{"externalId":"rc-1","externalProvider":"revenuecat","receipt_data":"\#(receipt)"}"#)
      let id = try #require(try await service.profile(AppAPIBench.anna)["original_transaction_id"])
      let subscription = """
        {"id":"\(id)","status":"active","billingCycle":"monthly","startDate":"2024-06-15T12:00:00Z",\
        "currentPeriodEnd":"2024-07-15T12:00:00Z","trialEndsAt":null,"externalProvider":"app_store"}
        """
      let rest = """
        "subscription":\(subscription),"plan":\(Self.proPlan),"limits":\(Self.proLimits),"isTrialing":false,\
        "trialDaysRemaining":null
        """
      try expect(answer, #"{"success":true,"message":"The subscription is active.",\#(rest)}"#)
      try expect(
        try await get(service, "current"),
        """
        {"success":true,\(rest),"usage":{"childrenCount":0,"favoritesCount":0,"sharedUsersCount":0,
         "savedSearchesCount":0,"questionsCount":0}}
        """)
      try expect(try await get(service, "limits"), #"{"success":true,"limits":\#(Self.proLimits)}"#)
      // By its ID, and with nothing at all.
      for body in [#"{"externalId":"\#(id)","externalProvider":"revenuecat"}"#, "{}", nil] {
        try expect(
          try await post(service, "restore", body),
          #"{"success":true,"restored":true,"message":"The subscription is restored.",\#(rest)}"#)
      }
      try expect(
        try await post(service, "cancel", "{}"),
        """
        {"success":true,"cancelled":false,"managementUrl":"https://apps.apple.com/account/subscriptions",
         "message":"Only the customer can cancel, in the store: open 'managementUrl'.",\(rest)}
        """)
      #expect(try await get(service, "check/children?count=98")["allowed"] == "true")
      #expect(try await get(service, "check/questions")["limit"] == "1000000000")
    }
  }

  @Test func `a subscription has the word for its state`() async throws {
    try await AppAPIBench.run { service, store, _ in
      for (number, (scenario, status)) in [
        (Scenario.trial, "trialing"), (.renewalOff, "cancelled"), (.grace, "active"), (.expiredVoluntary, "expired"),
        (.refunded, "expired"), (.lifetime, "active"),
      ].enumerated() {
        let receipt = try store.simulator.issueReceipt(scenario, subscriber: Int64(number + 1)).receiptData
        let answer = try await post(service, "restore", #"{"receipt_data":"\#(receipt)"}"#, "user-\(number)")
        #expect(answer.status == 200)
        let subscription = try #require(answer.object["subscription"] as? [String: Any])
        #expect(subscription["status"] as? String == status)
        #expect(answer["isTrialing"] == "\(scenario == .trial)")
        #expect(answer["restored"] == "\(status != "expired")")
        #expect((subscription["trialEndsAt"] is NSNull) == (scenario != .trial))
        #expect((answer["trialDaysRemaining"] == "null") == (scenario != .trial))
        #expect((1...7).contains(answer["trialDaysRemaining"].flatMap { Int($0) } ?? 1))
        if scenario == .lifetime {
          #expect(subscription["billingCycle"] is NSNull && subscription["currentPeriodEnd"] is NSNull)
        }
      }
    }
  }

  @Test func `nothing is taken from the app but what Apple signed`() async throws {
    try await AppAPIBench.run { service, store, _ in
      let claim = #"{"externalId":"rc-1","externalProvider":"revenuecat","planCode":"premium","billingCycle":"annual"}"#
      try AppAPIBench.expect(try await post(service, "verify", claim), 404, "UNKNOWN_TRANSACTION")
      try AppAPIBench.expect(try await post(service, "verify", "{}"), 404, "UNKNOWN_TRANSACTION")
      let restored = try await post(service, "restore", claim)
      #expect(restored.status == 200 && restored["restored"] == "false" && restored["subscription"] == "null")
      #expect(restored["message"] == "There is no subscription to restore.")
      // Another user's purchase, by the receipt and by its ID.
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      #expect(try await post(service, "verify", #"{"receiptData":"\#(receipt)"}"#, AppAPIBench.ben).status == 200)
      try AppAPIBench.expect(
        try await post(service, "verify", #"{"receipt_data":"\#(receipt)"}"#), 409, "OWNED_BY_ANOTHER_USER")
      try AppAPIBench.expect(
        try await post(service, "restore", #"{"receipt_data":"\#(receipt)"}"#), 409, "OWNED_BY_ANOTHER_USER")
      let id = try #require(try await service.profile(AppAPIBench.ben)["original_transaction_id"])
      try AppAPIBench.expect(
        try await post(service, "verify", #"{"externalId":"\#(id)"}"#), 404, "UNKNOWN_TRANSACTION")
      #expect(try await post(service, "restore", #"{"externalId":"\#(id)"}"#)["restored"] == "false")
      for (receipt, status, error) in [
        ("garbage", 400, "UNDECODABLE_RECEIPT"),
        (try store.simulator.issueReceipt(.wrongApp, subscriber: 3).receiptData, 422, "WRONG_APP"),
      ] {
        try AppAPIBench.expect(
          try await post(service, "verify", #"{"receipt_data":"\#(receipt)"}"#), status, error)
      }
    }
  }

  @Test func `while Apple is away a new purchase is to be posted again, and a known one stands`() async throws {
    try await AppAPIBench.run { service, store, _ in
      let known = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      #expect(try await post(service, "verify", #"{"receipt_data":"\#(known)"}"#).status == 200)
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      let new = try store.simulator.issueReceipt(.lifetime, subscriber: 2).receiptData
      for path in ["verify", "restore"] {
        let answer = try await post(service, path, #"{"receipt_data":"\#(new)"}"#, AppAPIBench.ben)
        try AppAPIBench.expect(answer, 503, "APP_STORE_UNAVAILABLE")
        #expect(answer.header("Retry-After") == "30")
      }
      let again = try await post(service, "verify", #"{"receipt_data":"\#(known)"}"#)
      #expect(again.status == 200 && again["message"] == "The subscription is active.")
    }
  }

  @Test func `a purchase with Apple's signature counts while Apple is away`() async throws {
    var settings = AppAPIBench.settings()
    settings.policy["provisional"] = "24h"
    try await AppAPIBench.run(settings) { service, store, _ in
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let answer = try await post(service, "verify", #"{"receipt_data":"\#(receipt)"}"#)
      #expect(answer.status == 200 && answer["message"] == "The subscription is active.")
    }
  }

  @Test func `while the ledger is away nothing is guessed`() async throws {
    try await AppAPIBench.run { service, store, _ in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      #expect(try await service.send(.get, "/api/health/subscriptions").status == 200)
      await service.ledger.close()
      for path in ["current", "limits", "check/children?count=1", "feature/hasAdvancedFilters"] {
        let answer = try await get(service, path)
        try AppAPIBench.expect(answer, 503, "LEDGER_UNAVAILABLE")
        #expect(answer.header("Retry-After") == "5")
      }
      for path in ["verify", "restore", "start-trial", "cancel"] {
        try AppAPIBench.expect(
          try await post(service, path, #"{"receipt_data":"\#(receipt)"}"#), 503, "LEDGER_UNAVAILABLE")
      }
      let health = try await service.send(.get, "/api/health/subscriptions")
      try expect(
        health,
        """
        {"healthy":false,"checks":{"database":"unavailable","revenuecat_webhook":null,"app_store_notifications":null,
         "plans_configured":true},"stats":{"active_premium":null,"active_trials":null,"total_users":null}}
        """, status: 503)
      #expect(try await service.send(.get, "/api/subscriptions/plans", key: nil).status == 200)
    }
  }

  // MARK: Trials

  @Test func `a trial begins once, and the same one is told again`() async throws {
    try await AppAPIBench.run { service, _, clock in
      func body(_ message: String, days: Int, id: String) -> String {
        """
        {"success":true,"message":"\(message)","subscription":{"id":"\(id)","status":"trialing","billingCycle":null,
          "startDate":"2024-06-15T12:00:00Z","currentPeriodEnd":"2024-06-22T12:00:00Z",
          "trialEndsAt":"2024-06-22T12:00:00Z","externalProvider":null},"plan":\(Self.proPlan),
         "limits":\(Self.proLimits),"isTrialing":true,"trialDaysRemaining":\(days)}
        """
      }
      let first = try await post(service, "start-trial", "{}")
      // Mostly 1; PostgreSQL leaves a number out where an operation has to be run again.
      let id = try #require((first.object["subscription"] as? [String: Any])?["id"] as? String)
      #expect(Int(id) ?? 0 > 0)
      try expect(first, body("The trial has begun.", days: 7, id: id))
      #expect(try await service.ledger.record(of: UserID(AppAPIBench.anna)).devices.isEmpty)
      clock.advance(by: 86_400 + 1)
      let token = try AppAPIBench.token(AppAPIBench.anna, clock)
      for sent in [nil, "{}", #"{"deviceId":"11111111-1111-4111-8111-111111111111"}"#] {
        let again = try await service.send(.post, "/api/subscriptions/start-trial", key: token, body: sent)
        try expect(again, body("The trial of this user, which began before.", days: 6, id: id))
      }
      clock.advance(by: 7 * 86_400)
      let late = try AppAPIBench.token(AppAPIBench.anna, clock)
      let over = try await service.send(.post, "/api/subscriptions/start-trial", key: late, body: "{}")
      #expect(over.status == 200 && over["isTrialing"] == "false" && over["subscription"] == "null")
      #expect(over["trialDaysRemaining"] == "null")
    }
  }

  @Test(arguments: ["restore", "start-trial"])
  func `a body that is left out may have a media type`(path: String) async throws {
    try await AppAPIBench.run { service, _, _ in
      for header in [
        "", "Content-Type: application/json\r\n", "Content-Type: application/json\r\nContent-Length: 0\r\n",
      ] {
        let answer = try await service.exchange(
          "POST /api/subscriptions/\(path) HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\(header)"
            + "Authorization: Bearer \(try AppAPIBench.token())\r\n\r\n")
        #expect(answer.hasPrefix("HTTP/1.1 200 "), "\(answer)")
      }
    }
  }

  @Test func `a trial that was used, or would give no more, does not begin`() async throws {
    try await AppAPIBench.run { service, store, _ in
      let device = #"{"deviceId":"11111111-1111-4111-8111-111111111111","trial":"week"}"#
      #expect(try await post(service, "start-trial", device).status == 200)
      try AppAPIBench.expect(try await post(service, "start-trial", device, AppAPIBench.ben), 409, "TRIAL_USED")
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      #expect(
        try await post(service, "verify", #"{"receipt_data":"\#(receipt)"}"#, AppAPIBench.ben).status == 200)
      let other = #"{"deviceId":"22222222-2222-4222-8222-222222222222"}"#
      // No device is kept but those that were named.
      for body in [other, "{}", "{}"] {
        try AppAPIBench.expect(try await post(service, "start-trial", body, AppAPIBench.ben), 409, "TRIAL_NOT_NEEDED")
      }
      let devices = try await service.ledger.record(of: UserID(AppAPIBench.ben)).devices
      #expect(devices.map(\.device.id.rawValue.first) == ["1", "2"])
      for body in [#"{"deviceId":"phone"}"#, #"{"trial":"year"}"#, "[]", "{"] {
        try AppAPIBench.expect(try await post(service, "start-trial", body), 400, "MALFORMED_REQUEST")
      }
    }
  }

  @Test func `a trial that is once per device needs the device`() async throws {
    var settings = AppAPIBench.settings()
    settings.trials = ["week": "{ tier: pro, length: 7d, once_per: [device] }"]
    try await AppAPIBench.run(settings) { service, _, _ in
      try AppAPIBench.expect(try await post(service, "start-trial", "{}"), 400, "MALFORMED_REQUEST")
    }
    settings.trials = [:]
    try await AppAPIBench.run(settings) { service, _, _ in
      try AppAPIBench.expect(try await post(service, "start-trial", "{}"), 400, "MALFORMED_REQUEST")
    }
  }

  // MARK: Health

  @Test func `the health counts payers, trials and users`() async throws {
    try await AppAPIBench.run { service, store, _ in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      _ = try await service.validate(receipt, user: "payer")
      _ = try await service.validate(
        try store.simulator.issueReceipt(.expiredVoluntary, subscriber: 2).receiptData, user: "gone")
      #expect(try await post(service, "start-trial").status == 200)
      try expect(
        try await service.send(.get, "/api/health/subscriptions", key: RunningService.supportKey),
        """
        {"healthy":true,"checks":{"database":"connected","revenuecat_webhook":null,
         "app_store_notifications":"never_received","plans_configured":true},
         "stats":{"active_premium":1,"active_trials":1,"total_users":3}}
        """)
    }
  }

  @Test(arguments: [true, false])
  func `RevenueCat's events and Apple's notifications are told apart`(hasEvent: Bool) async throws {
    var settings = AppAPIBench.settings()
    settings.revenueCat = ["authorization_file": ["Bearer of-revenuecat"]]
    try await AppAPIBench.run(settings) { service, _, clock in
      if hasEvent {
        let taken = try await service.send(
          .post, "/v1/notifications/revenuecat", key: nil,
          body: #"{"api_version":"1.0","event":{"type":"TEST","id":"t1","event_timestamp_ms":1718452800000}}"#,
          headers: [TransportHeader("Authorization", "Bearer of-revenuecat")])
        #expect(taken.status == 200, "\(taken.text)")
        clock.advance(by: 150)
      }
      // The counts stand for a minute, so that one service is asked once.
      let answer = try await service.send(.get, "/api/health/subscriptions", key: RunningService.supportKey)
      let checks = answer.object["checks"] as? [String: Any]
      #expect(checks?["revenuecat_webhook"] as? String == (hasEvent ? "last_received_2min_ago" : "never_received"))
      #expect(checks?["app_store_notifications"] as? String == "never_received")
    }
  }

  @Test(arguments: [
    (0, "last_received_0min_ago"), (150, "last_received_2min_ago"), (7_199, "last_received_119min_ago"),
    (7_200, "last_received_2h_ago"), (200_000, "last_received_2d_ago"), (-5, "last_received_0min_ago"),
  ])
  func `the last notification is told by its age`(seconds: Double, words: String) {
    #expect(SubscriptionsHealth.words(for: noon - seconds, at: noon) == words)
  }

  // MARK: Who may, and how errors read

  @Test func `no caller reaches more than their own data`() async throws {
    try await AppAPIBench.run { service, _, _ in
      func row(_ method: TransportRequest.Method, _ path: String, _ user: Int, body: String? = nil) -> AppAPIBench.Row {
        AppAPIBench.Row(
          method: method, path: "/api/subscriptions/\(path)", body: body, user: user, service: 403, support: 403)
      }
      try await AppAPIBench.check(
        [
          AppAPIBench.Row(
            method: .get, path: "/api/subscriptions/plans", user: 200, service: 200, support: 200, isOpen: true),
          row(.get, "current", 200), row(.get, "limits", 200), row(.get, "check/children", 200),
          row(.get, "feature/hasAdvancedFilters", 200), row(.post, "verify", 404, body: "{}"),
          row(.post, "restore", 200, body: "{}"), row(.post, "cancel", 200, body: "{}"),
          row(.post, "start-trial", 200, body: "{}"),
          AppAPIBench.Row(
            method: .get, path: "/api/health/subscriptions", user: 403, service: 200, support: 200),
        ], service)
    }
  }

  @Test func `every error has the same form`() async throws {
    var settings = AppAPIBench.settings()
    settings.server["max_body"] = "64KiB"
    try await AppAPIBench.run(settings) { service, _, _ in
      try AppAPIBench.expect(try await post(service, "verify", "{"), 400, "MALFORMED_REQUEST")
      try AppAPIBench.expect(
        try await post(service, "verify", "{}" + String(repeating: " ", count: 70_000)), 413, "PAYLOAD_TOO_LARGE")
      let token = try AppAPIBench.token()
      try AppAPIBench.expect(
        try await service.send(
          .post, "/api/subscriptions/verify", key: token, body: "{}",
          headers: [TransportHeader("Content-Type", "text/plain")]), 415, "UNSUPPORTED_MEDIA_TYPE")
      let method = try await AppAPIBench.raw("PUT", "/api/subscriptions/current", key: token, port: service.port)
      #expect(method.hasPrefix("HTTP/1.1 405 ") && method.lowercased().contains("allow: get, head"))
      #expect(method.contains(#""error":"METHOD_NOT_ALLOWED""#) && method.contains(#""success":false"#))
      let nothing = try await AppAPIBench.raw("GET", "/api/subscriptions/none", key: token, port: service.port)
      #expect(nothing.hasPrefix("HTTP/1.1 404 ") && nothing.contains(#""error":"NOT_FOUND""#))
    }
    settings.server["user_rate_limit"] = "1"
    try await AppAPIBench.run(settings) { service, _, _ in
      var answer = try await get(service, "limits")
      for _ in 0..<50 where answer.status != 429 { answer = try await get(service, "limits") }
      try AppAPIBench.expect(answer, 429, "RATE_LIMITED")
      #expect(answer.header("Retry-After") == "1")
    }
  }

  @Test func `the dialect is off unless it is named`() async throws {
    try await AppAPIBench.run(AppAPIBench.settings([])) { service, _, _ in
      for path in ["/api/subscriptions/plans", "/api/health/subscriptions", "/api/trial/verify"] {
        let answer = try await AppAPIBench.raw("GET", path, key: nil, port: service.port)
        #expect(answer.hasPrefix("HTTP/1.1 404 ") && answer.contains("application/problem+json"))
      }
      #expect(!service.routes.contains { $0.path.hasPrefix("/api/") })
    }
  }

  @Test func `openapi.yaml has the routes of both interfaces`() async throws {
    let contract = try Contract.shared.get()
    try await AppAPIBench.run { service, _, _ in
      let documented = contract.allOperations.filter {
        ["subscriptions_api", "trial_api"].contains(contract.dialect(of: $0))
      }
      #expect(Set(documented.map(\.path)) == Set(service.routes.map(\.path).filter { $0.hasPrefix("/api/") }))
      #expect(documented.count == 13)
    }
  }
}
