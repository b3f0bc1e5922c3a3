import CountersignAPI
import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator

/// Trials of the app's own, through HTTP on the running service, with Apple's DeviceCheck played beside it.
@Suite struct TrialsTests {
  private static let anna = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  private static let ben = "00000000-0000-4000-8000-000000000002"
  private static let phone = "11111111-1111-4111-8111-111111111111"
  private static let tablet = "22222222-2222-4222-8222-222222222222"

  /// - Parameter deviceCheck: whether DeviceCheck is asked, and whether it is required.
  private func run(
    deviceCheck: String? = nil, tier: String = "pro", sessions: Int? = nil,
    body: @Sendable (RunningService, SimulatedStore, ProfileStoreDouble, MovingClock) async throws -> Void
  ) async throws {
    let clock = MovingClock()
    try await SimulatedStore.run { store in
      try await ProfileStoreDouble.running { profiles in
        var settings = Settings(
          server: ["user_rate_limit": "0"],
          appStore: ["deadline": "1m"], jwt: ["secret": TokenMint.secret],
          profileStore: .store(profiles.url, deadline: "1m"))
        let number = sessions.map { ", sessions: \($0)" } ?? ""
        settings.trials = ["week": "{ tier: \(tier), length: 7d\(number) }"]
        if let deviceCheck {
          settings.deviceCheck = .deviceCheck(store)
          settings.deviceCheck["require"] = deviceCheck
        }
        try await RunningService.run(apple: store.apple, settings: settings, now: { clock.date }) { service in
          try await body(service, store, profiles, clock)
        }
      }
    }
  }

  /// Begins as a user does.
  private func begin(
    _ service: RunningService, _ user: String = anna, on device: String = phone, token: String? = nil,
    at clock: MovingClock
  ) async throws -> Answer {
    let token = token.map { #","device_token":"\#($0)""# } ?? ""
    return try await service.send(
      .post, "/v1/trials", key: try TokenMint.user(user, at: clock.date),
      body: #"{"device_id":"\#(device)","device":{"model":"iPhone15,2","ios_version":"18.0"}\#(token)}"#)
  }

  private func use(
    _ service: RunningService, _ user: String = anna, on device: String = phone, key: String? = nil,
    at clock: MovingClock
  ) async throws -> Answer {
    try await service.send(
      .post, "/v1/trials/\(device)/sessions", key: try TokenMint.user(user, at: clock.date),
      headers: key.map { [TransportHeader("Idempotency-Key", $0)] } ?? [])
  }

  @Test func `support sees the trials of a user, and whose the device is`() async throws {
    try await run { service, _, _, clock in
      let path = "/v1/profiles/\(Self.anna)/trials"
      #expect(try await service.send(.get, path, key: RunningService.supportKey).text == #"{"trials":[]}"# + "\n")
      #expect(try await service.lookUp(Self.phone).kinds.isEmpty)
      #expect(try await begin(service, at: clock).status == 201)
      clock.advance(by: 8 * 86_400)
      let trials = try await service.send(.get, path, key: RunningService.supportKey)
      let answer = try JSONDecoder.countersign.decode(TrialsResponse.self, from: Data(trials.text.utf8))
      #expect(answer.trials.map(\.deviceID) == [Self.phone] && answer.trials.first?.state == .over)
      let found = try await service.lookUp(Self.phone.uppercased())
      #expect(found.kinds == ["device_id"] && found.answer["user_id"] == Self.anna, "\(found.answer.text)")
      #expect(try await service.send(.delete, "/v1/profiles/\(Self.anna)").status == 200)
      let erased = try await service.lookUp(Self.phone)
      #expect(erased.kinds == ["device_id"] && erased.answer["user_id"] == "null", "\(erased.answer.text)")
    }
  }

  @Test func `a trial begins at once, in the row too, and ends by itself`() async throws {
    try await run { service, _, profiles, clock in
      let answer = try await begin(service, at: clock)
      #expect(answer.status == 201)
      let trial = try JSONDecoder.countersign.decode(TrialResponse.self, from: Data(answer.text.utf8))
      #expect(trial.trial == "week" && trial.tier == "pro" && trial.state == .running && trial.deviceID == Self.phone)
      #expect(trial.startedAt == noon && trial.expiresAt == noon + 7 * 86_400)
      #expect(trial.sessionsTotal == nil && trial.sessionsUsed == 0 && trial.sessionsRemaining == nil)
      let read = try await service.profile(Self.anna)
      #expect(read.verdict == "pro active trial" && read["is_trial"] == "true" && read["source"] == "trial")
      #expect(profiles.row(Self.anna)?["subscription_tier"] == .text("pro"))
      let history = try await service.send(.get, "/v1/profiles/\(Self.anna)/history", key: RunningService.supportKey)
      #expect(history.text.contains(#""reason":"trial""#))
      clock.advance(by: 7 * 86_400)
      #expect(try await service.profile(Self.anna).verdict == "free active no_purchases")
      try await eventually { profiles.row(Self.anna)?["subscription_tier"] == .text("free") }
      let over = try await service.send(
        .get, "/v1/trials/\(Self.phone)", key: try TokenMint.user(Self.anna, at: clock.date))
      #expect(over["state"] == "over")
    }
  }

  @Test func `a second account on the same device gets none, and may share the device`() async throws {
    try await run { service, _, _, clock in
      #expect(try await begin(service, at: clock).status == 201)
      let refused = try await begin(service, Self.ben, at: clock)
      #expect(refused.status == 409 && refused["code"] == "trial_used")
      let token = try TokenMint.user(Self.ben, at: clock.date)
      let registered = try await service.send(
        .put, "/v1/devices/\(Self.phone)", key: token, body: #"{"push_token":"abc","device":{"app_version":"2.0"}}"#)
      #expect(registered.status == 200 && registered["trial"] == "null")
      #expect(try await service.send(.get, "/v1/trials/\(Self.phone)", key: token).status == 404)
      #expect(try await service.profile(Self.ben).verdict == "free active no_purchases")
      #expect(try await service.send(.get, "/v1/trials/\(Self.phone)")["user_id"] == Self.anna)
    }
  }

  @Test func `a free period at the App Store is the store account's trial`() async throws {
    try await run { service, store, _, clock async throws in
      let receipt = try store.simulator.issueReceipt(.trial).receiptData
      #expect(try await service.validate(receipt, user: Self.anna)["is_trial"] == "true")
      clock.advance(by: 60 * 86_400)
      let refused = try await begin(service, at: clock)
      #expect(refused.status == 409 && refused["code"] == "trial_used")
    }
  }

  @Test func `a user who buys has converted`() async throws {
    try await run { service, store, _, clock async throws in
      #expect(try await begin(service, at: clock)["state"] == "running")
      _ = try await service.validate(try store.simulator.issueReceipt(.subscriber).receiptData, user: Self.anna)
      let answer = try await service.send(.get, "/v1/trials/\(Self.phone)?user_id=\(Self.anna)")
      #expect(answer["state"] == "converted")
      #expect(try await service.profile(Self.anna).verdict == "pro active renewing")
    }
  }

  @Test func `the renewal of a lower subscription converts no trial`() async throws {
    try await run(tier: "premium") { service, store, _, clock async throws in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt, user: Self.anna).verdict == "pro active renewing")
      #expect(try await begin(service, at: clock)["state"] == "running")
      clock.advance(by: 20 * 86_400)
      store.simulator.setClock(clock.date)
      #expect(try await service.validate(receipt, user: Self.anna).verdict == "pro active renewing")
      let answer = try await service.send(.get, "/v1/trials/\(Self.phone)?user_id=\(Self.anna)")
      #expect(answer["state"] == "over")
    }
  }

  @Test func `each session counts once, and the last one ends the trial`() async throws {
    try await run(sessions: 3) { service, _, profiles, clock in
      #expect(try await begin(service, at: clock)["sessions_remaining"] == "3")
      for _ in 0..<3 { #expect(try await use(service, key: "k1", at: clock)["sessions_remaining"] == "2") }
      #expect(try await use(service, at: clock)["sessions_remaining"] == "1")
      #expect(try await service.profile(Self.anna).verdict == "pro active trial")
      let last = try await use(service, key: "k3", at: clock)
      #expect(last.status == 200 && last["sessions_remaining"] == "0" && last["state"] == "used_up")
      #expect(try await service.profile(Self.anna).verdict == "free active no_purchases")
      #expect(profiles.row(Self.anna)?["subscription_tier"] == .text("free"))
      let over = try await use(service, key: "k4", at: clock)
      #expect(over.status == 403 && over["code"] == "trial_over")
      // A retry of the last one is not a fourth.
      #expect(try await use(service, key: "k3", at: clock).status == 200)
      #expect(try await use(service, Self.ben, at: clock).status == 404)
    }
  }

  @Test func `one of fifty starts at once begins a trial`() async throws {
    try await run { service, _, _, clock in
      let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
        for number in 0..<50 {
          group.addTask {
            try await service.send(
              .post, "/v1/trials", body: #"{"device_id":"\#(Self.phone)","user_id":"user-\#(number % 5)"}"#
            ).status
          }
        }
        return try await group.reduce(into: [Int]()) { $0.append($1) }
      }
      #expect(statuses.count { $0 == 201 } == 1)
      #expect(statuses.count { $0 == 200 } == 9)
      #expect(statuses.count { $0 == 409 } == 40)
    }
  }

  // MARK: DeviceCheck

  @Test func `Apple remembers a device that was erased`() async throws {
    try await run(deviceCheck: "false") { service, store, _, clock async throws in
      let first = try await begin(service, token: store.simulator.deviceToken(of: "A"), at: clock)
      #expect(first.status == 201)
      #expect(store.simulator.deviceBits(of: "A")?.bit0 == true)
      // The app has another ID for the device now, and another account.
      let refused = try await begin(
        service, Self.ben, on: Self.tablet, token: store.simulator.deviceToken(of: "A"), at: clock)
      #expect(refused.status == 409 && refused["code"] == "trial_used")
      let other = try await begin(
        service, Self.ben, on: Self.tablet, token: store.simulator.deviceToken(of: "B"), at: clock)
      #expect(other.status == 201)
    }
  }

  @Test func `while Apple is away a trial begins, and Apple is told with the next token`() async throws {
    try await run(deviceCheck: "false") { service, store, _, clock async throws in
      store.simulator.setTrouble(.http503, service: .deviceCheck)
      #expect(try await begin(service, token: store.simulator.deviceToken(of: "A"), at: clock).status == 201)
      #expect(store.simulator.deviceBits(of: "A") == nil)
      store.simulator.setTrouble(nil)
      // The breaker is no longer open.
      try await eventually {
        _ = try await service.send(
          .put, "/v1/devices/\(Self.phone)", key: try TokenMint.user(Self.anna, at: clock.date),
          body: #"{"device_token":"\#(store.simulator.deviceToken(of: "A"))"}"#)
        return store.simulator.deviceBits(of: "A")?.bit0 == true
      }
    }
  }

  @Test func `where it is required nobody begins without it`() async throws {
    try await run(deviceCheck: "true") { service, store, _, clock async throws in
      #expect(try await begin(service, at: clock).status == 400)
      store.simulator.setTrouble(.http503, service: .deviceCheck)
      let away = try await begin(service, token: store.simulator.deviceToken(of: "A"), at: clock)
      #expect(away.status == 503 && away["code"] == "app_store_unavailable")
      #expect(try await service.profile(Self.anna).verdict == "free active no_purchases")
    }
  }

  @Test func `where it is required a worthless second token begins nothing`() async throws {
    try await run(deviceCheck: "true") { service, store, _, clock async throws in
      let key = try TokenMint.user(Self.anna, at: clock.date)
      // With a good first one Apple is told by it.
      let good = try await service.send(
        .post, "/v1/trials", key: key,
        body:
          #"{"device_id":"\#(Self.phone)","device_token":"\#(store.simulator.deviceToken(of: "A"))","second_device_token":"AAAA"}"#
      )
      #expect(good.status == 201 && store.simulator.deviceBits(of: "A")?.bit0 == true)
    }
  }

  @Test func `Apple is told of the device on which the trial began, and the other bit stays`() async throws {
    try await run(deviceCheck: "false") { service, store, _, clock async throws in
      store.simulator.setTrouble(.http503, service: .deviceCheck)
      #expect(try await begin(service, token: store.simulator.deviceToken(of: "A"), at: clock).status == 201)
      store.simulator.setTrouble(nil)
      #expect(
        try await begin(service, on: Self.tablet, token: store.simulator.deviceToken(of: "B"), at: clock).status == 200)
      #expect(store.simulator.deviceBits(of: "B") == nil)
    }
  }

  @Test func `a token that Apple does not take begins nothing, and a key that it refuses costs nobody a trial`()
    async throws
  {
    try await run(deviceCheck: "false") { service, store, _, clock async throws in
      store.simulator.setTrouble(.deviceCheckTokenRefused)
      let refused = try await begin(service, token: store.simulator.deviceToken(of: "A"), at: clock)
      #expect(refused.status == 422 && refused["code"] == "device_token_refused")
      #expect(try await service.send(.get, "/v1/trials/\(Self.phone)").status == 404)
      store.simulator.setTrouble(.deviceCheckKeyRefused)
      #expect(try await begin(service, token: store.simulator.deviceToken(of: "A"), at: clock).status == 201)
      #expect(service.log.text.contains("DeviceCheck refuses the key"))
      #expect(!service.log.text.contains(store.simulator.deviceToken(of: "A")))
    }
  }

  @Test func `a start that cannot be meant is refused`() async throws {
    let phone = #""device_id":"\#(Self.phone)""#
    try await run { service, _, _, clock in
      for body in [
        #"{"device_id":"phone"}"#, "{}", #"{\#(phone),"trial":"month"}"#, #"{\#(phone),"device_token":"no base64!"}"#,
        #"{\#(phone),"push_token":"a b"}"#, #"{\#(phone),"device":{"model":""}}"#,
      ] {
        let answer = try await service.send(
          .post, "/v1/trials", key: try TokenMint.user(Self.anna, at: clock.date), body: body)
        #expect(answer.status == 400, "\(body)")
      }
    }
  }
}

extension [String: String] {
  /// `device_check`, played by the simulator.
  static func deviceCheck(_ store: SimulatedStore) -> [String: String] {
    let key = store.simulator.deviceCheckKeyPEM.replacing("\n", with: "\\n")
    return [
      "key": "\"\(key)\"", "key_id": store.simulator.deviceCheckKeyID, "team_id": store.simulator.deviceCheckTeamID,
      "production_url": "\"\(store.simulator.deviceCheckURL)\"",
      "development_url": "\"\(store.simulator.deviceCheckDevelopmentURL)\"", "ca_file": "\"\(store.apple.caFile)\"",
    ]
  }
}
