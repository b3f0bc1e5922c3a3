import CountersignAPI
import Foundation
import HTTPTransport
import Testing
import TestSupport

/// Plans, features and usage, as an app sees them.
@Suite struct UsageHTTPTests {
  private static let user = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  private static let features = """
    { filters: { pro: true }, children: { kind: limit, free: 2, pro: 99 }, \
    questions: { kind: meter, free: 2 per day, pro: unlimited }, \
    trips: { kind: meter, free: 1 per rolling 7d, pro: unlimited }, \
    recipes: { kind: meter, free: 1 in total, pro: [unlimited, 3 per day], premium: unlimited }, \
    exports: { kind: meter, premium: 5 per month }, meals: { kind: meter, free: 1 day in a row, pro: unlimited } }
    """

  private func run(
    _ clock: MovingClock = MovingClock(), body: @Sendable (RunningService, MovingClock) async throws -> Void
  ) async throws {
    let settings = Settings(
      server: ["user_rate_limit": "0"], jwt: ["secret": TokenMint.secret],
      catalog: [
        "features": Self.features,
        "offerings":
          "{ default: { current: true, packages: { $rc_monthly: com.example.app.pro.monthly }, metadata: { best: 1 } } }",
        "experiments": "{ headline: { variants: { control: 1, family: 1 } } }",
      ])
    try await RunningService.run(apple: .unreachable, settings: settings, now: { clock.date }) { service in
      try await body(service, clock)
    }
  }

  private func feature(_ answer: Answer) throws -> FeatureResponse {
    try JSONDecoder.countersign.decode(FeatureResponse.self, from: Data(answer.text.utf8))
  }

  @Test func `a user consumes up to the limit, and is told when and with what tier there is more`() async throws {
    try await run { service, _ in
      let token = try TokenMint.user(Self.user, at: noon)
      for count in 1...2 {
        let answer = try await service.consume("questions", of: "me", key: token)
        #expect(answer.status == 200)
        let state = try feature(answer)
        #expect(state.feature == "questions" && state.tier == "free" && state.isAllowed && state.kind == .meter)
        #expect(state.current == count && state.limit == 2 && state.remaining == 2 - count)
        #expect(state.resetsAt == noon + 43_200)
      }
      let refused = try await service.consume("questions", of: "me", key: token)
      #expect(refused.status == 403 && refused["code"] == "limit_reached" && refused["retryable"] == "false")
      let problem = try JSONDecoder.countersign.decode(ProblemDocument.self, from: Data(refused.text.utf8))
      let state = try #require(problem.feature)
      #expect(!state.isAllowed && state.current == 2 && state.remaining == 0 && state.upgradeTo == "pro")
      #expect(state.resetsAt == noon + 43_200)
      let read = try await service.send(.get, "/v1/profiles/me/features/questions", key: token)
      #expect(read.status == 200 && read["allowed"] == "false")
    }
  }

  @Test func `access that a free consumer gets, and that ends, counts for the next consumption`() async throws {
    try await run { service, clock in
      for status in [200, 200, 403] {
        #expect(try await service.consume("questions", of: "u").status == status)
      }
      _ = try await service.send(
        .post, "/v1/profiles/u/grants", key: RunningService.supportKey,
        body: #"{"tier":"pro","for":"1h","note":"why"}"#)
      #expect(try await service.consume("questions", of: "u")["tier"] == "pro")
      clock.advance(by: 3_600)
      #expect(try await service.consume("questions", of: "u").status == 403)
    }
  }

  @Test func `an answer tells whether one more is allowed, and says the same under its key`() async throws {
    try await run { service, _ in
      // The last day of a run: nothing remains, and it may be used all day.
      for key in ["a", "a", "b"] {
        let state = try feature(
          try await service.consume("meals", of: "u", headers: [TransportHeader("Idempotency-Key", key)]))
        #expect(state.isAllowed && state.isMoreAllowed && state.remaining == 0)
      }
      #expect(try feature(try await service.consume("questions", of: "u")).isMoreAllowed)
      let last = try feature(try await service.consume("questions", of: "u"))
      #expect(last.isAllowed && !last.isMoreAllowed && last.remaining == 0)
      let refused = try await service.consume("questions", of: "u")
      #expect(refused.status == 403 && refused["more_allowed"] == "false")
    }
  }

  @Test func `a consumption is given back by its key, once`() async throws {
    try await run { service, clock in
      let token = try TokenMint.user(Self.user, at: noon)
      for key in ["a/b", "c"] {
        _ = try await service.consume(
          "questions", of: "me", key: token, headers: [TransportHeader("Idempotency-Key", key)])
      }
      let path = "/v1/profiles/me/usage/questions"
      let back = try await service.send(.delete, path + "/a%2Fb", key: token)
      #expect(back.status == 200)
      #expect(try feature(back).current == 1)
      #expect(try await service.send(.delete, path + "/a%2Fb", key: token).status == 404)
      clock.advance(by: 600)
      #expect(try await service.send(.delete, path + "/c", key: token).status == 403)
      #expect(try await service.send(.delete, "/v1/profiles/\(Self.user)/usage/questions/c").status == 200)
    }
  }

  @Test func `the app's count of a limit decides, or the one that is kept here`() async throws {
    try await run { service, _ in
      let path = "/v1/profiles/u/features/children"
      let one = try feature(try await service.send(.get, path + "?count=1"))
      #expect(one.isAllowed && one.current == 1 && one.limit == 2 && one.remaining == 1 && one.resetsAt == nil)
      let two = try feature(try await service.send(.get, path + "?count=2"))
      #expect(!two.isAllowed && two.remaining == 0 && two.upgradeTo == "pro")
      #expect(try feature(try await service.send(.get, path + "?count=1&amount=2")).isAllowed == false)
      let set = try await service.send(.put, "/v1/profiles/u/usage/children", body: #"{"count":2}"#)
      #expect(set.status == 200)
      #expect(try feature(set).current == 2)
      #expect(try feature(try await service.send(.get, path)).current == 2)
    }
  }

  @Test func `access has the verdict, every feature, and the variant of the experiment`() async throws {
    try await run { service, clock in
      _ = try await service.send(
        .post, "/v1/profiles/u/grants", key: RunningService.supportKey,
        body: #"{"tier":"pro","for":"1d","note":"why"}"#)
      _ = try await service.consume("recipes", of: "u")
      let answer = try await service.send(.get, "/v1/profiles/u/access")
      #expect(answer.status == 200 && answer.header("Cache-Control") == "private, no-cache")
      let access = try JSONDecoder.countersign.decode(AccessResponse.self, from: Data(answer.text.utf8))
      #expect(access.userID == "u" && access.tier == "pro" && access.timeZone == "UTC")
      #expect(
        Set(access.features.keys) == ["filters", "children", "questions", "trips", "recipes", "exports", "meals"])
      #expect(access.features["filters"]?.isAllowed == true && access.features["filters"]?.limit == nil)
      #expect(access.features["recipes"]?.remaining == 2 && access.features["exports"]?.upgradeTo == "premium")
      #expect(["control", "family"].contains(access.experiments["headline"]))
      let tag = try #require(answer.header("ETag"))
      let again = try await service.send(
        .get, "/v1/profiles/u/access", headers: [TransportHeader("If-None-Match", tag)])
      #expect(again.status == 304)
      // Consumption, and midnight, change it.
      _ = try await service.consume("recipes", of: "u")
      let used = try await service.send(.get, "/v1/profiles/u/access", headers: [TransportHeader("If-None-Match", tag)])
      #expect(used.status == 200)
      clock.advance(by: 43_200)
      let tomorrow = try JSONDecoder.countersign.decode(
        AccessResponse.self, from: Data(try await service.send(.get, "/v1/profiles/u/access").text.utf8))
      #expect(tomorrow.features["recipes"]?.remaining == 3)
    }
  }

  @Test func `days begin where the user is`() async throws {
    try await run { service, _ in
      // 12:00 in London is 00:00 of the next day in Auckland: today's midnight is 12 hours away in both.
      let answer = try await service.consume("questions", of: "u", zone: "Asia/Kolkata")
      #expect(try feature(answer).resetsAt == noon + 6.5 * 3600)
      #expect(
        try feature(try await service.send(.get, "/v1/profiles/u/features/questions?time_zone=UTC")).resetsAt
          == noon + 43_200)
      let wrong = try await service.consume("questions", of: "u", zone: "Mars/Olympus")
      #expect(wrong.status == 400)
    }
  }

  @Test func `plans are for anybody, and for any cache`() async throws {
    try await run { service, _ in
      let answer = try await service.send(.get, "/v1/plans", key: nil)
      #expect(answer.status == 200 && answer.header("Cache-Control") == "public, max-age=300")
      let plans = try JSONDecoder.countersign.decode(PlansResponse.self, from: Data(answer.text.utf8))
      #expect(plans.plans.map(\.tier) == ["free", "pro", "premium"])
      #expect(plans.plans.first?.features["children"]?.limit == 2)
      #expect(plans.plans.first?.features["exports"]?.isIncluded == false)
      #expect(plans.plans.last?.features["exports"]?.rules == ["5 per month"])
      #expect(
        plans.plans.dropFirst().first?.products.map(\.productID) == [
          "com.example.app.pro.monthly", "com.example.app.pro.season", "com.example.app.pro.yearly",
        ])
      #expect(plans.currentOffering == "default" && plans.offerings.first?.packages.first?.name == "$rc_monthly")
      #expect(plans.offerings.first?.metadata["best"] == .integer(1))
      let tag = try #require(answer.header("ETag"))
      let again = try await service.send(
        .get, "/v1/plans", key: nil, headers: [TransportHeader("If-None-Match", tag)])
      #expect(again.status == 304)
    }
  }

  private static let wrongRequests: [(TransportRequest.Method, String, String?, Int)] = [
    (.post, "/usage/filters", "{}", 400), (.post, "/usage/children", "{}", 400),
    (.post, "/usage/questions", #"{"amount":0}"#, 400), (.post, "/usage/questions", #"{"amount":1000001}"#, 400),
    (.post, "/usage/questions", #"{"amount":1.5}"#, 400), (.post, "/usage/questions", #"{"amount":"1"}"#, 400),
    (.post, "/usage/none", "{}", 404), (.put, "/usage/questions", #"{"count":1}"#, 400),
    (.put, "/usage/children", #"{"count":-1}"#, 400), (.get, "/features/none", nil, 404),
    (.get, "/features/questions?count=1", nil, 400), (.get, "/features/questions?amount=0", nil, 400),
    (.get, "/features/questions?amount=1&amount=2", nil, 400), (.get, "/access?time_zone=EST", nil, 400),
    (.delete, "/usage/none/k", nil, 404), (.post, "/usage/exports", "{}", 403),
  ]

  @Test func `a request that cannot be meant is refused`() async throws {
    try await run { service, _ in
      for (method, path, body, status) in Self.wrongRequests {
        let answer = try await service.send(method, "/v1/profiles/u" + path, body: body)
        #expect(answer.status == status, "\(path)")
      }
    }
  }
}

extension RunningService {
  func consume(
    _ feature: String, of user: String, amount: Int = 1, zone: String? = nil, key: String? = serviceKey,
    headers: [TransportHeader] = []
  ) async throws -> Answer {
    let zone = zone.map { #","time_zone":"\#($0)""# } ?? ""
    return try await send(
      .post, "/v1/profiles/\(user)/usage/\(feature)", key: key, body: #"{"amount":\#(amount)\#(zone)}"#,
      headers: headers)
  }
}
