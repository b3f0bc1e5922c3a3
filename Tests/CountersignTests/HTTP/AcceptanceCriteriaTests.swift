import CountersignAPI
import Foundation
import HTTPTransport
import Testing
import TestSupport

/// The wishes of four apps, with the catalogs of `samples/catalogs`, through HTTP on the running service.
/// docs/development.md has the table from criterion to test.
@Suite struct AcceptanceCriteriaTests {
  /// Saturday, 15 June 2024, noon UTC.
  private static let day = 86_400.0

  private struct App {
    var service: RunningService
    var clock: MovingClock

    func feature(_ feature: String, _ query: String = "", of user: String = "u") async throws -> FeatureResponse {
      let answer = try await service.send(.get, "/v1/profiles/\(user)/features/\(feature)\(query)")
      return try JSONDecoder.countersign.decode(FeatureResponse.self, from: Data(answer.body))
    }

    func access(of user: String = "u") async throws -> AccessResponse {
      let answer = try await service.send(.get, "/v1/profiles/\(user)/access")
      return try JSONDecoder.countersign.decode(AccessResponse.self, from: Data(answer.body))
    }

    func plans() async throws -> PlansResponse {
      let answer = try await service.send(.get, "/v1/plans", key: nil)
      return try JSONDecoder.countersign.decode(PlansResponse.self, from: Data(answer.body))
    }

    /// How many of so many attempts are let through.
    func consume(_ feature: String, times: Int, of user: String = "u") async throws -> Int {
      var count = 0
      for _ in 0..<times {
        let answer = try await service.send(.post, "/v1/profiles/\(user)/usage/\(feature)", body: "{}")
        #expect([200, 403].contains(answer.status))
        if answer.status == 200 { count += 1 }
      }
      return count
    }

    func give(_ tier: String, to user: String = "u", for length: String = "365d") async throws {
      let answer = try await service.send(
        .post, "/v1/profiles/\(user)/grants", body: #"{"tier":"\#(tier)","for":"\#(length)"}"#)
      #expect(answer.status == 201)
    }
  }

  private func run(_ catalog: String, body: @Sendable (App) async throws -> Void) async throws {
    let clock = MovingClock()
    var settings = Settings(
      server: ["rate_limit": "0", "user_rate_limit": "0"], jwt: ["secret": TokenMint.secret])
    settings.sampleCatalog = catalog
    settings.trials = ["week": "{ tier: \(catalog == "cycling.yaml" ? "pro" : "premium"), length: 7d, sessions: 30 }"]
    try await RunningService.run(apple: .unreachable, settings: settings, now: { clock.date }) { service in
      try await body(App(service: service, clock: clock))
    }
  }

  // MARK: A family app

  @Test func `family: each tier has its limits of children, favourites and shared users`() async throws {
    try await run("family.yaml") { app async throws in
      for tier in ["free", "premium"] {
        if tier == "premium" { try await app.give("premium") }
        for (feature, free, premium) in [
          ("children", 2, 99), ("favorites", 10, 999), ("shared_users", 1, 99), ("saved_searches", 0, 10),
        ] {
          let limit = tier == "free" ? free : premium
          if limit > 0 { #expect(try await app.feature(feature, "?count=\(limit - 1)").isAllowed) }
          let full = try await app.feature(feature, "?count=\(limit)")
          #expect(!full.isAllowed && full.limit == limit && full.remaining == 0 && full.tier == tier, "\(feature)")
          #expect(full.upgradeTo == (tier == "free" ? "premium" : nil))
        }
      }
    }
  }

  @Test func `family: the paid tier alone has filters, calendar, alerts and hiding`() async throws {
    let features = [
      "advanced_filters", "calendar_month_and_year", "calendar_export", "instant_alerts", "hide_closed_or_full",
    ]
    try await run("family.yaml") { app async throws in
      for feature in features {
        let locked = try await app.feature(feature)
        #expect(!locked.isAllowed && locked.kind == .flag && locked.upgradeTo == "premium", "\(feature)")
      }
      try await app.give("premium")
      for feature in features { #expect(try await app.feature(feature).isAllowed, "\(feature)") }
    }
  }

  @Test func `family: plans have names, prices and limits, for anybody`() async throws {
    try await run("family.yaml") { app async throws in
      let plans = try await app.plans()
      #expect(plans.plans.map(\.name) == ["Discovery", "Family Pro"])
      #expect(plans.plans.last?.products.map(\.prices) == [["USD": "49.99"], ["USD": "5.99"]])
      #expect(plans.plans.last?.products.map(\.period) == ["P1Y", "P1M"])
      #expect(plans.plans.map { $0.features["favorites"]?.limit } == [10, 999])
    }
  }

  @Test func `family: a trial of seven days gives full access at once, and access reverts to free`() async throws {
    try await run("family.yaml") { app async throws in
      let answer = try await app.service.send(
        .post, "/v1/trials", body: #"{"user_id":"u","device_id":"11111111-1111-4111-8111-111111111111"}"#)
      #expect(answer.status == 201 && answer["expires_at"] == "2024-06-22T12:00:00Z")
      let during = try await app.access()
      #expect(during.tier == "premium" && during.isTrial)
      #expect(during.features["calendar_export"]?.isAllowed == true && during.features["children"]?.limit == 99)
      app.clock.advance(by: 7 * Self.day)
      let after = try await app.access()
      #expect(after.tier == "free" && after.features["children"]?.limit == 2)
      let again = try await app.service.send(
        .post, "/v1/trials", body: #"{"user_id":"u","device_id":"11111111-1111-4111-8111-111111111111"}"#)
      #expect(again.status == 200 && again["state"] == "over")
    }
  }

  @Test func `family: the same user always sees the same variants, in the given shares`() async throws {
    try await run("family.yaml") { app async throws in
      let first = try await app.access().experiments
      #expect(Set(first.keys) == ["paywall_headline", "paywall_price_display", "trial_cta"])
      #expect(try await app.access().experiments == first)
      var counts: [String: Int] = [:]
      for number in 0..<300 {
        counts[try await app.access(of: "user-\(number)").experiments["paywall_headline"] ?? "", default: 0] += 1
      }
      #expect(Set(counts.keys) == ["control", "family_focus", "savings_focus"])
      #expect(counts.values.allSatisfy { (70...130).contains($0) })
      // A variant that a user saw stays, also where another device knew no better.
      let other = first["trial_cta"] == "control" ? "start_free" : "control"
      for variant in [other, "try_premium"] {
        let answer = try await app.service.send(
          .post, "/v1/events",
          body: """
            {"events":[{"type":"experiment_exposed","user_id":"u",
              "properties":{"experiment":"trial_cta","variant":"\(variant)"}}]}
            """)
        #expect(answer.status == 200 && answer["unknown_variants"] == "0")
        #expect(try await app.access().experiments["trial_cta"] == other)
      }
    }
  }

  // MARK: A cycling app

  @Test func `cycling: one bike is free, and more need the paid tier`() async throws {
    try await run("cycling.yaml") { app async throws in
      #expect(try await app.feature("bikes", "?count=0").isAllowed)
      let second = try await app.feature("bikes", "?count=1")
      #expect(!second.isAllowed && second.upgradeTo == "pro")
      try await app.give("pro")
      #expect(try await app.feature("bikes", "?count=1000").isAllowed)
    }
  }

  @Test func `cycling: one trip in seven days is free`() async throws {
    try await run("cycling.yaml") { app async throws in
      #expect(try await app.consume("trips", times: 2) == 1)
      app.clock.advance(by: 7 * Self.day - 1)
      #expect(try await app.consume("trips", times: 1) == 0)
      let refused = try await app.feature("trips")
      #expect(!refused.isAllowed && refused.resetsAt == noon + 7 * Self.day)
      app.clock.advance(by: 1)
      #expect(try await app.consume("trips", times: 2) == 1)
      try await app.give("pro")
      #expect(try await app.consume("trips", times: 20) == 20)
    }
  }

  @Test func `cycling: basic statistics and free routes are for all, advanced ones and premium routes for payers`()
    async throws
  {
    try await run("cycling.yaml") { app async throws in
      for tier in ["free", "pro"] {
        if tier == "pro" { try await app.give("pro") }
        let features = try await app.access().features
        #expect(features["basic_trip_stats"]?.isAllowed == true)
        #expect(features["advanced_trip_stats"]?.isAllowed == (tier == "pro"))
        #expect(features["premium_routing_providers"]?.isAllowed == (tier == "pro"))
      }
    }
  }

  // MARK: A diet app

  @Test func `diet: ten questions a month are free, and the month begins anew by itself`() async throws {
    try await run("diet.yaml") { app async throws in
      #expect(try await app.consume("oracle_questions", times: 12) == 10)
      #expect(try await app.feature("oracle_questions").resetsAt == noon + 15.5 * Self.day)
      app.clock.advance(by: 15.5 * Self.day - 1)
      #expect(try await app.consume("oracle_questions", times: 1) == 0)
      app.clock.advance(by: 1)
      #expect(try await app.consume("oracle_questions", times: 12) == 10)
    }
  }

  @Test func `diet: one recipe in all is free, for ever`() async throws {
    try await run("diet.yaml") { app async throws in
      #expect(try await app.consume("recipes", times: 2) == 1)
      app.clock.advance(by: 400 * Self.day)
      #expect(try await app.consume("recipes", times: 1) == 0)
      #expect(try await app.feature("recipes").resetsAt == nil)
    }
  }

  @Test func `diet: meals of three days in a row are free`() async throws {
    try await run("diet.yaml") { app async throws in
      for _ in 0..<3 {
        #expect(try await app.consume("meal_days", times: 4) == 4)
        app.clock.advance(by: Self.day)
      }
      #expect(try await app.consume("meal_days", times: 1) == 0)
      // One whole day is left out.
      app.clock.advance(by: Self.day)
      #expect(try await app.consume("meal_days", times: 1) == 1)
    }
  }

  @Test func `diet: the paid tier is unlimited within reasonable daily limits`() async throws {
    try await run("diet.yaml") { app async throws in
      try await app.give("premium")
      #expect(try await app.consume("oracle_questions", times: 42) == 40)
      #expect(try await app.consume("recipes", times: 12) == 10)
      #expect(try await app.consume("meal_days", times: 50) == 50)
      app.clock.advance(by: Self.day / 2)
      #expect(try await app.consume("oracle_questions", times: 42) == 40)
      #expect(try await app.consume("recipes", times: 12) == 10)
      for feature in ["analytics", "export"] { #expect(try await app.feature(feature).isAllowed) }
    }
  }

  @Test func `diet: a reached limit names the tier that lifts it`() async throws {
    try await run("diet.yaml") { app async throws in
      _ = try await app.consume("recipes", times: 1)
      let refused = try await app.service.send(.post, "/v1/profiles/u/usage/recipes", body: "{}")
      #expect(refused.status == 403 && refused["code"] == "limit_reached" && refused["upgrade_to"] == "premium")
      #expect(refused["current"] == "1" && refused["limit"] == "1")
      let plans = try await app.plans()
      #expect(plans.offerings.first?.metadata["best_value"] == .text("$rc_annual"))
      #expect(plans.plans.last?.products.map(\.prices) == [["USD": "4.99"], ["USD": "39.99"]])
    }
  }

  @Test func `diet: a purchase counts at once, and its end ends access at once`() async throws {
    try await run("diet.yaml") { app async throws in
      #expect(try await app.consume("oracle_questions", times: 11) == 10)
      try await app.give("premium", for: "1d")
      #expect(try await app.consume("oracle_questions", times: 1) == 1)
      app.clock.advance(by: Self.day)
      // Consumption in the meantime counts.
      let after = try await app.feature("oracle_questions")
      #expect(!after.isAllowed && after.tier == "free" && after.current == 11 && after.remaining == 0)
    }
  }
}
