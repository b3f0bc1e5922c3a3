import Foundation
import HTTPTransport
import Ledger
import Testing

@testable import AppStoreSimulator

/// `/api/trial/…`, as an app asks that keeps its trial in the keychain.
@Suite struct TrialAPITests {
  private static let phone = "11111111-1111-4111-8111-111111111111"
  private static let tablet = "22222222-2222-4222-8222-222222222222"

  private func post(
    _ service: RunningService, _ path: String, _ body: String, _ user: String = AppAPIBench.anna,
    key: String? = nil, at clock: MovingClock? = nil
  ) async throws -> Answer {
    try await service.send(
      .post, "/api/trial/\(path)", key: try AppAPIBench.token(user, clock), body: body,
      headers: key.map { [TransportHeader("Idempotency-Key", $0)] } ?? [])
  }

  private func start(
    _ service: RunningService, _ user: String = AppAPIBench.anna, on device: String = phone,
    at clock: MovingClock? = nil
  ) async throws -> Answer {
    try await post(
      service, "start",
      #"{"device_id":"\#(device)","device_info":{"model":"iPhone15,2","ios_version":"18.0","app_version":"1.0.0"}}"#,
      user, at: clock)
  }

  private func verify(
    _ service: RunningService, _ sessions: Int? = nil, _ user: String = AppAPIBench.anna, on device: String = phone,
    at clock: MovingClock? = nil
  ) async throws -> Answer {
    let data = sessions.map { #","trial_data":{"started_at":"2024-01-15T10:00:00Z","sessions_used":\#($0)}"# } ?? ""
    return try await post(service, "verify", #"{"device_id":"\#(device)"\#(data)}"#, user, at: clock)
  }

  private func use(
    _ service: RunningService, _ user: String = AppAPIBench.anna, on device: String = phone, key: String? = nil,
    at clock: MovingClock? = nil
  ) async throws -> Answer {
    try await post(service, "session", #"{"device_id":"\#(device)","action":"use"}"#, user, key: key, at: clock)
  }

  private func expect(
    _ answer: Answer, _ body: String, sourceLocation: SourceLocation = #_sourceLocation
  ) throws {
    #expect(answer.status == 200, sourceLocation: sourceLocation)
    #expect(try AppAPIBench.plain(answer.text) == AppAPIBench.plain(body), sourceLocation: sourceLocation)
  }

  private static func state(used: Int, left: Int, valid: Bool = true, end: String = "2024-06-22T12:00:00Z") -> String {
    """
    {"valid":\(valid),"trial_state":{"started_at":"2024-06-15T12:00:00Z","expires_at":"\(end)",
      "sessions_used":\(used),"sessions_remaining":\(left)}}
    """
  }

  private static let begun =
    #"{"success":true,"trial":{"started_at":"2024-06-15T12:00:00Z","expires_at":"2024-06-22T12:00:00Z","sessions_total":30}}"#

  @Test func `a trial begins, is verified and used, and a repeated start is the same trial`() async throws {
    try await AppAPIBench.run(AppAPIBench.settings(sessions: 30)) { service, _, clock in
      try expect(try await verify(service, 5), #"{"valid":false,"trial_state":null}"#)
      try expect(try await start(service), Self.begun)
      clock.advance(by: 3_600)
      try expect(try await start(service, at: clock), Self.begun)
      try expect(try await verify(service, at: clock), Self.state(used: 0, left: 30))
      try expect(try await use(service, at: clock), #"{"success":true,"sessions_remaining":29}"#)
      #expect(try await service.profile(AppAPIBench.anna).verdict == "pro active trial")
    }
  }

  @Test func `only a larger number of sessions counts from the app`() async throws {
    try await AppAPIBench.run(AppAPIBench.settings(sessions: 30)) { service, _, clock in
      try expect(try await start(service), Self.begun)
      try expect(try await verify(service, 5), Self.state(used: 5, left: 25))
      try expect(try await verify(service, 3), Self.state(used: 5, left: 25))
      try expect(try await use(service), #"{"success":true,"sessions_remaining":24}"#)
      for sessions in ["-1", "100001", "1.5"] {
        try AppAPIBench.expect(
          try await post(
            service, "verify", #"{"device_id":"\#(Self.phone)","trial_data":{"sessions_used":\#(sessions)}}"#), 400,
          "MALFORMED_REQUEST")
      }
      clock.advance(by: 60)
      try expect(
        try await verify(service, 100_000, at: clock),
        Self.state(used: 30, left: 0, valid: false, end: "2024-06-15T12:01:00Z"))
      #expect(try await service.profile(AppAPIBench.anna).verdict == "free active no_purchases")
    }
  }

  @Test func `a trial without a number of sessions has none left to tell`() async throws {
    try await AppAPIBench.run { service, _, _ in
      try expect(
        try await start(service),
        #"{"success":true,"trial":{"started_at":"2024-06-15T12:00:00Z","expires_at":"2024-06-22T12:00:00Z","sessions_total":null}}"#
      )
      try expect(try await use(service), #"{"success":true,"sessions_remaining":null}"#)
      try expect(
        try await verify(service, 7),
        """
        {"valid":true,"trial_state":{"started_at":"2024-06-15T12:00:00Z","expires_at":"2024-06-22T12:00:00Z",
          "sessions_used":7,"sessions_remaining":null}}
        """)
    }
  }

  @Test func `a second device of the user shares the trial, by its start or by its verification`() async throws {
    try await AppAPIBench.run(AppAPIBench.settings(sessions: 30)) { service, _, _ in
      try expect(try await start(service), Self.begun)
      try AppAPIBench.expect(try await use(service, on: Self.tablet), 404, "NOT_FOUND")
      try expect(try await verify(service, on: Self.tablet), Self.state(used: 0, left: 30))
      try expect(try await use(service, on: Self.tablet), #"{"success":true,"sessions_remaining":29}"#)
      let third = "33333333-3333-4333-8333-333333333333"
      try expect(try await start(service, on: third), Self.begun)
      try expect(try await use(service, on: third.uppercased()), #"{"success":true,"sessions_remaining":28}"#)
    }
  }

  @Test func `another account gets neither the trial of a device nor a sight of it`() async throws {
    try await AppAPIBench.run(AppAPIBench.settings(sessions: 30)) { service, _, _ in
      try expect(try await start(service), Self.begun)
      try AppAPIBench.expect(try await start(service, AppAPIBench.ben), 409, "TRIAL_USED")
      try expect(try await verify(service, 30, AppAPIBench.ben), #"{"valid":false,"trial_state":null}"#)
      try AppAPIBench.expect(try await use(service, AppAPIBench.ben), 404, "NOT_FOUND")
      try expect(try await verify(service), Self.state(used: 0, left: 30))
    }
  }

  @Test func `a user who buys keeps the trial until it ends`() async throws {
    try await AppAPIBench.run(AppAPIBench.settings(sessions: 30)) { service, store, _ in
      try expect(try await start(service), Self.begun)
      let receipt = try store.simulator.issueReceipt(.subscriber, subscriber: 1).receiptData
      #expect(try await service.validate(receipt, user: AppAPIBench.anna).status == 200)
      try expect(try await verify(service), Self.state(used: 0, left: 30))
    }
  }

  @Test func `a user may ask ten times a minute, over all three routes`() async throws {
    try await AppAPIBench.run { service, _, _ in
      #expect(try await start(service).status == 200)
      var calls = 1
      var refused: Answer?
      while refused == nil, calls < 100 {
        let answer = calls.isMultiple(of: 2) ? try await use(service) : try await verify(service)
        if answer.status == 429 { refused = answer } else { calls += 1 }
      }
      let answer = try #require(refused)
      try AppAPIBench.expect(answer, 429, "RATE_LIMITED")
      // A slow machine gets one more for each six seconds.
      #expect(calls >= 10)
      #expect((1...6).contains(answer.header("Retry-After").flatMap { Int($0) } ?? 0))
      #expect(try await verify(service, nil, AppAPIBench.ben).status == 200, "each user has a limit of their own")
    }
  }

  @Test func `while the ledger is away nothing is guessed`() async throws {
    try await AppAPIBench.run { service, _, _ in
      await service.ledger.close()
      for answer in [try await start(service), try await verify(service, 1), try await use(service)] {
        try AppAPIBench.expect(answer, 503, "LEDGER_UNAVAILABLE")
        #expect(answer.header("Retry-After") == "5")
      }
    }
  }

  @Test func `a user's token and the public key of an app reach it`() async throws {
    let body = #"{"device_id":"\#(Self.phone)"}"#
    try await AppAPIBench.run { service, _, _ in
      try await AppAPIBench.check(
        // At the end the device's trial is the user's.
        [("verify", 200, 200), ("session", 404, 404), ("start", 200, 409)].map { path, user, app in
          AppAPIBench.Row(
            method: .post, path: "/api/trial/\(path)", body: body, user: user, service: 403, support: 403, app: app)
        }, service)
    }
  }

  @Test func `without accounts the device has the trial, and whoever signs in takes it along`() async throws {
    try await AppAPIBench.run(AppAPIBench.settings(sessions: 30)) { service, _, clock in
      func app(_ path: String, _ more: String = "") async throws -> Answer {
        try await service.send(
          .post, "/api/trial/\(path)", key: RunningService.publicKey, body: #"{"device_id":"\#(Self.phone)"\#(more)}"#)
      }
      try expect(try await app("verify"), #"{"valid":false,"trial_state":null}"#)
      try expect(try await app("start"), Self.begun)
      clock.advance(by: 3_600)
      try expect(try await app("start"), Self.begun)
      try expect(try await app("verify", #","trial_data":{"sessions_used":5}"#), Self.state(used: 5, left: 25))
      try expect(try await app("session", #","action":"use""#), #"{"success":true,"sessions_remaining":24}"#)
      try expect(try await verify(service, at: clock), Self.state(used: 6, left: 24))
      #expect(try await service.profile(AppAPIBench.anna).verdict == "pro active trial")
      try expect(try await app("verify"), Self.state(used: 6, left: 24))
      try AppAPIBench.expect(try await start(service, AppAPIBench.ben, at: clock), 409, "TRIAL_USED")
    }
  }

  @Test func `every error has the same form`() async throws {
    try await AppAPIBench.run { service, _, _ in
      for (path, body) in [
        ("verify", "{}"), ("start", #"{"device_id":"phone"}"#), ("session", "{"),
        ("session", #"{"device_id":"\#(Self.phone)","action":"give"}"#),
        ("start", #"{"device_id":"\#(Self.phone)","trial":"year"}"#),
        ("start", #"{"device_id":"\#(Self.phone)","device_info":{"model":""}}"#),
        ("start", #"{"device_id":"\#(Self.phone)","push_token":""}"#),
      ] { try AppAPIBench.expect(try await post(service, path, body), 400, "MALFORMED_REQUEST") }
      let large = "{}" + String(repeating: " ", count: 30_000)
      try AppAPIBench.expect(try await post(service, "verify", large, AppAPIBench.ben), 413, "PAYLOAD_TOO_LARGE")
      let token = try AppAPIBench.token(AppAPIBench.ben)
      try AppAPIBench.expect(
        try await service.send(
          .post, "/api/trial/verify", key: token, body: "{}",
          headers: [TransportHeader("Content-Type", "text/plain")]), 415, "UNSUPPORTED_MEDIA_TYPE")
      let method = try await AppAPIBench.raw("GET", "/api/trial/verify", key: token, port: service.port)
      #expect(method.hasPrefix("HTTP/1.1 405 ") && method.contains(#""error":"METHOD_NOT_ALLOWED""#))
    }
  }
}
