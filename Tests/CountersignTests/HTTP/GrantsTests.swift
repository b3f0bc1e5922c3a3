import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator

/// Access that is given: through HTTP on the running service, with Apple and the profile store beside it.
@Suite struct GrantsTests {
  private func run(
    body: @Sendable (RunningService, SimulatedStore, ProfileStoreDouble, MovingClock) async throws -> Void
  ) async throws {
    try await RunningService.besideStores(
      settings: Settings(appStore: ["deadline": "4s"]), deadline: "5s", body: body)
  }

  private func give(
    _ service: RunningService, _ body: String, user: String = "user-1", key: String = RunningService.supportKey,
    idempotencyKey: String? = nil
  ) async throws -> Answer {
    try await service.send(
      .post, "/v1/profiles/\(user)/grants", key: key, body: body,
      headers: idempotencyKey.map { [TransportHeader("Idempotency-Key", $0)] } ?? [])
  }

  @Test func `support gives a month with a note: it reads so at once, in the row too, and ends by itself`() async throws
  {
    try await run { service, store, profiles, clock in
      store.simulator.setTrouble(.http503)
      let answer = try await give(service, #"{"tier":"pro","for":"30d","note":"an apology"}"#)
      #expect(answer.status == 201)
      #expect(answer["tier"] == "pro" && answer["kind"] == "support" && answer["note"] == "an apology")
      #expect(answer["ends_at"] == "2024-07-15T12:00:00Z")
      let read = try await service.profile()
      #expect(read.verdict == "pro active granted")
      #expect(read["access_until"] == "2024-07-15T12:00:00Z")
      #expect(read["will_renew"] == "false" && read["stale"] == "false" && read["is_trial"] == "false")
      #expect(profiles.row("user-1")?["subscription_tier"] == .text("pro"))
      let history = try await service.send(.get, "/v1/profiles/user-1/history", key: RunningService.supportKey)
      #expect(history.text.contains("an apology") && history.text.contains(#""reason":"granted""#))
      #expect(history.text.contains(#""grant_id":"1""#) && history.text.contains(#""reason":"granted""#))
      clock.advance(by: 30 * 86_400 - 1)
      #expect(try await service.profile().verdict == "pro active granted")
      clock.advance(by: 1)
      #expect(try await service.profile().verdict == "free active no_purchases")
      try await eventually { profiles.row("user-1")?["subscription_tier"] == .text("free") }
      #expect(store.simulator.calls.total == 0, "Apple is not asked")
    }
  }

  @Test func `a grant is listed, and ended by a person`() async throws {
    try await run { service, _, profiles, _ in
      let given = try await give(service, #"{"tier":"pro","for":"30d","note":"why"}"#)
      let location = try #require(given.header("Location"))
      #expect(location == "/v1/profiles/user-1/grants/1")
      let nameless = try await service.send(.delete, location, key: RunningService.supportKey, body: "{}")
      #expect(nameless.status == 400)
      let bodiless = try await service.send(.delete, location, key: RunningService.supportKey)
      #expect(bodiless.status == 400 && bodiless["detail"]?.contains("'note' is missing") == true)
      let ended = try await service.send(
        .delete, location, key: RunningService.supportKey, body: #"{"note":"a mistake"}"#)
      #expect(ended.status == 200 && ended["ended_early"] == "true" && ended["ends_at"] == "2024-06-15T12:00:00Z")
      #expect(try await service.profile().verdict == "free active no_purchases")
      #expect(profiles.row("user-1")?["subscription_tier"] == .text("free"))
      // A server needs no note, and an end is an end.
      #expect(try await service.send(.delete, location).status == 200)
      #expect(try await service.send(.delete, "/v1/profiles/user-2/grants/1").status == 404)
      let list = try await service.send(.get, "/v1/profiles/user-1/grants")
      #expect(list.array("grants").count == 1)
      #expect(try await service.send(.get, "/v1/profiles/user-2/grants").array("grants").isEmpty)
    }
  }

  @Test func `whatever the nanosecond at which it begins, a grant is recorded, written, and the same when repeated`()
    async throws
  {
    try await run { service, _, profiles, clock in
      for number in 0..<40 {
        // A quarter of a millisecond, and some nanoseconds.
        clock.advance(by: 1.000_250_113)
        let user = "user-\(number)"
        func send() async throws -> Answer {
          try await give(
            service, #"{"tier":"pro","for":"30d"}"#, user: user, key: RunningService.serviceKey, idempotencyKey: "once")
        }
        let first = try await send()
        #expect(first.status == 201)
        let history = try await service.send(.get, "/v1/profiles/\(user)/history", key: RunningService.supportKey)
        #expect(history.array("entries").count == 1 && history.text.contains(#""reason":"granted""#))
        #expect(profiles.row(user)?["subscription_tier"] == .text("pro"))
        let read = try await service.profile(user)
        #expect(read.verdict == "pro active granted" && read["source"] == "grant")
        clock.advance(by: 7.000_000_731)
        let second = try await send()
        #expect(second.status == 201 && second.text == first.text)
      }
    }
  }

  @Test func `a body that is no grant is refused, and nothing is given`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      for body in [
        #"{"tier":"pro","note":"why"}"#, #"{"tier":"pro","for":"1d","ends_at":"2030-01-01T00:00:00Z","note":"why"}"#,
        #"{"tier":"free","for":"1d","note":"why"}"#, #"{"tier":"gold","for":"1d","note":"why"}"#,
        #"{"tier":"pro","for":"soon","note":"why"}"#, #"{"tier":"pro","for":"0","note":"why"}"#,
        #"{"tier":"pro","for":"99999d","note":"why"}"#,
        #"{"tier":"pro","ends_at":"2020-01-01T00:00:00Z","note":"why"}"#,
        #"{"tier":"pro","ends_at":"2030-01-01T00:00:00","note":"why"}"#, #"{"tier":"pro","ends_at":"x","note":"why"}"#,
        #"{"tier":"pro","for":"1d","kind":"trial","note":"why"}"#, #"{"tier":"pro","for":"1d"}"#,
        #"{"tier":"pro","for":"1d","note":" "}"#,
      ] {
        let answer = try await give(service, body)
        #expect(answer.status == 400 && answer["code"] == "malformed_request", "\(body): \(answer.text)")
      }
      #expect(try await service.send(.get, "/v1/profiles/user-1/grants").array("grants").isEmpty)
      #expect(try await service.profile().verdict == "free active no_purchases")
    }
  }
}
