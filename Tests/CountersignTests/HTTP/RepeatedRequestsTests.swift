import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator

/// Requests that come again, as their answer was lost: on a clock with nanoseconds, which has gone on.
@Suite struct RepeatedRequestsTests {
  private static let start = Date(timeIntervalSince1970: 1_718_452_800.000_123_456)
  private static let device = "11111111-1111-4111-8111-111111111111"
  private static let key = [TransportHeader("Idempotency-Key", "once")]

  private func run(
    _ settings: Settings = Settings(), jobPause: Duration = .milliseconds(20),
    body: @Sendable (RunningService, SimulatedStore, MovingClock) async throws -> Void
  ) async throws {
    let clock = MovingClock(Self.start + 0.000_250_113)
    try await RunningService.besideStore(at: Self.start, settings: settings, jobPause: jobPause, now: { clock.date }) {
      service, store in
      try await body(service, store, clock)
    }
  }

  /// Sends a request three times: at a moment, some nanoseconds later and some seconds later.
  private func repeated(
    _ clock: MovingClock, _ send: () async throws -> Answer, sourceLocation: SourceLocation = #_sourceLocation
  ) async throws -> [Answer] {
    var answers = [try await send()]
    for pause in [0.000_000_731, 7.000_400_119] {
      clock.advance(by: pause)
      answers.append(try await send())
    }
    #expect(Set(answers.map(\.text)).count == 1, sourceLocation: sourceLocation)
    return answers
  }

  private func events(_ service: RunningService, _ type: String) async throws -> Int {
    try await service.send(.get, "/v1/events").array("events").count { $0["type"] as? String == type }
  }

  @Test(arguments: [#""for":"30d""#, #""ends_at":"2024-07-01T00:00:00.5Z""#])
  func `a grant is given once, by its length or its end`(end: String) async throws {
    try await run { service, _, clock in
      func give(_ end: String) async throws -> Answer {
        try await service.send(
          .post, "/v1/profiles/u/grants", body: "{\"tier\":\"pro\",\(end)}", headers: Self.key)
      }
      let answers = try await repeated(clock) { try await give(end) }
      #expect(answers.map(\.status) == [201, 201, 201])
      #expect(try await give(#""for":"31d""#).status == 422)
      #expect(try await events(service, "grant.started") == 1)
    }
  }

  @Test func `a consumption counts once`() async throws {
    try await run { service, _, clock in
      let answers = try await repeated(clock) { try await service.consume("questions", of: "u", headers: Self.key) }
      #expect(answers.map(\.status) == [200, 200, 200])
      let other = try await service.consume("questions", of: "u", amount: 2, headers: Self.key)
      #expect(other.status == 422 && other["code"] == "idempotency_mismatch")
      #expect(try await service.send(.get, "/v1/profiles/u/features/questions")["current"] == "1")
    }
  }

  @Test func `a trial begins once, and is taken over once`() async throws {
    try await run { service, _, clock in
      let body = "{\"user_id\":\"u\",\"device_id\":\"\(Self.device)\"}"
      let answers = try await repeated(clock) { try await service.send(.post, "/v1/trials", body: body) }
      #expect(answers.map(\.status) == [201, 200, 200])
      let former = """
        {"trials":[{"user_id":"v","device_id":"22222222-2222-4222-8222-222222222222",\
        "started_at":"2024-06-14T12:00:00.123Z","expires_at":"2024-06-20T12:00:00.456Z"}]}
        """
      for _ in 0..<2 {
        #expect(try await service.send(.post, "/v1/trials/import", body: former).status == 200)
        clock.advance(by: 7.000_000_731)
      }
      #expect(try await events(service, "trial.started") == 2)
    }
  }

  @Test func `an app's event is kept once, whatever its time`() async throws {
    try await run { service, _, clock in
      let body = #"{"events":[{"type":"paywall_viewed","user_id":"u","id":"once"}]}"#
      _ = try await repeated(clock) { try await service.send(.post, "/v1/events", body: body) }
      #expect(try await events(service, "paywall_viewed") == 1)
    }
  }

  @Test func `a receipt and a signed transaction make one event each`() async throws {
    try await run { service, store, clock in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let signed = try store.simulator.issueTransaction(.lifetime, subscriber: 2).signedTransaction
      for _ in 0..<3 {
        for (user, proof) in [("u", receipt), ("v", signed)] {
          #expect(try await service.validate(proof, user: user).status == 200)
        }
        clock.advance(by: 0.000_400_119)
      }
      #expect(try await service.profile("u").verdict == "pro active renewing")
      #expect(try await events(service, "subscription.started") == 2)
    }
  }

  @Test func `a run is started once, and by one order`() async throws {
    try await run(jobPause: .seconds(3600)) { service, _, clock in
      func start(_ body: String) async throws -> Answer {
        try await service.send(.post, "/v1/revalidations", body: body, headers: Self.key)
      }
      let answers = try await repeated(clock) { try await start(#"{"expiring_within":"24h"}"#) }
      #expect(answers.map(\.status) == [202, 200, 200])
      #expect(try await start(#"{"expiring_within":"1d"}"#).status == 200, "the same length in other words")
      for other in [#"{"expiring_within":"25h"}"#, #"{"expiring_within":"24h","limit":7}"#] {
        let refused = try await start(other)
        #expect(refused.status == 422 && refused["code"] == "idempotency_mismatch")
      }
      #expect(try await service.send(.get, "/v1/revalidations").array("runs").count == 1)
    }
  }

  @Test func `an event is redelivered once to a receiver that is away, however often that is asked for`() async throws {
    try await WebhookReceiver.running { receiver in
      receiver.answer(500)
      var settings = Settings()
      settings.webhookSecrets = [WebhookTests.secret]
      settings.webhooks = ["name: shop, url: \(receiver.url), private: true"]
      try await run(settings) { service, _, clock in
        #expect(
          try await service.send(.post, "/v1/profiles/u/grants", body: #"{"tier":"pro","for":"1d"}"#).status == 201)
        try await eventually { receiver.requests.count == 1 }
        let listed = try await service.send(.get, "/v1/events").array("events")
        let event = try #require(listed.first?["id"] as? String)
        let body = #"{"webhook":"shop","event_id":"\#(event)"}"#
        _ = try await repeated(clock) { try await service.send(.post, "/v1/webhooks/redeliver", body: body) }
        receiver.answer(200)
        try await eventually(clock, step: 301) { try await service.ledger.webhookStatus("shop")?.waiting == 0 }
        #expect(Set(receiver.requests.compactMap { $0.header("webhook-id") }) == [event])
      }
    }
  }
}
