import CountersignAPI
import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator

/// Trials through HTTP on the running service: in apps without accounts, of new devices, from elsewhere, as they are listed and
/// changed. The clock has nanoseconds.
@Suite struct DeviceTrialsTests {
  private static let start = Date(timeIntervalSince1970: 1_768_478_400.123456789)  // 2026-01-15T12:00:00.123Z
  private static let anna = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  private static let phone = "11111111-1111-4111-8111-111111111111"
  private static let tablet = "22222222-2222-4222-8222-222222222222"

  private struct Bench: Sendable {
    var service: RunningService
    var store: SimulatedStore
    var profiles: ProfileStoreDouble
    var clock: MovingClock

    func begin(_ key: String, on device: String = phone, _ more: String = "") async throws -> Answer {
      try await service.send(.post, "/v1/trials", key: key, body: #"{"device_id":"\#(device)"\#(more)}"#)
    }

    func token(_ user: String = anna) throws -> String { try TokenMint.user(user, at: clock.date) }

    func types() async throws -> [String] {
      let events = try await service.send(.get, "/v1/events")
      return events.array("events").compactMap { $0["type"] as? String }
    }
  }

  private func run(
    sessions: Int? = nil, server: [String: String] = ["user_rate_limit": "0", "rate_limit": "0"],
    _ body: @Sendable (Bench) async throws -> Void
  ) async throws {
    var settings = Settings(server: server, jwt: ["secret": TokenMint.secret])
    settings.dialects = ["revenuecat", "cordova", "openiap"]
    let number = sessions.map { ", sessions: \($0)" } ?? ""
    settings.trials = ["week": "{ tier: pro, length: 7d\(number) }"]
    try await RunningService.besideStores(at: Self.start, settings: settings, deadline: "1m") {
      service, store, profiles, clock in
      try await body(Bench(service: service, store: store, profiles: profiles, clock: clock))
    }
  }

  private static let app = RunningService.publicKey

  // MARK: Apps without accounts

  @Test func `without accounts the device is the user, until somebody signs in and takes the trial along`()
    async throws
  {
    try await run(sessions: 3) { bench in
      let begun = try await bench.begin(Self.app)
      #expect(begun.status == 201 && begun["user_id"] == "$device:\(Self.phone)" && begun["state"] == "running")
      bench.clock.advance(by: 3_600)
      let again = try await bench.begin(Self.app, on: Self.phone.uppercased())
      #expect(again.status == 200 && again["expires_at"] == begun["expires_at"])
      let used = try await bench.service.send(.post, "/v1/trials/\(Self.phone)/sessions", key: Self.app)
      #expect(used["sessions_remaining"] == "2")
      let read = try await bench.service.send(.get, "/v1/trials/\(Self.phone)", key: Self.app)
      #expect(read["sessions_used"] == "1")
      let kept = try await bench.service.send(
        .put, "/v1/devices/\(Self.phone)", key: Self.app, body: #"{"device":{"app_version":"2.0"}}"#)
      #expect(kept.text.contains(#""sessions_used":1"#))
      // A server reads what it is; the history has it; there is no row.
      #expect(try await bench.service.profile("$device:\(Self.phone)").verdict == "pro active trial")
      #expect(bench.profiles.rows.keys.allSatisfy { !$0.contains("device") })
      // Who signs in takes it along, and the row is written.
      let taken = try await bench.begin(try bench.token())
      #expect(taken.status == 200 && taken["user_id"] == Self.anna && taken["state"] == "running")
      #expect(taken["expires_at"] == begun["expires_at"], "\(taken.text)")
      #expect(bench.profiles.row(Self.anna)?["subscription_tier"] == .text("pro"))
      #expect(try await bench.service.profile(Self.anna).verdict == "pro active trial")
      // The app does not learn who it is, and finds the trial all the same.
      let found = try await bench.service.send(.get, "/v1/trials/\(Self.phone)", key: Self.app)
      #expect(found["user_id"] == "$device:\(Self.phone)" && !found.text.contains(Self.anna))
      #expect(try await bench.begin(try bench.token("ben")).status == 409)
      #expect(try await bench.types() == ["trial.started", "trial.refused"])
      bench.clock.advance(by: 7 * 86_400)
      #expect(try await bench.begin(Self.app)["state"] == "over")
    }
  }

  @Test func `a public key reads and changes nothing of a device but its trial`() async throws {
    try await run { bench in
      #expect(try await bench.begin(Self.app).status == 201)
      let user = "$device:\(Self.phone)"
      let others = try await bench.service.send(
        .get, "/v1/trials/\(Self.phone)?user_id=\(Self.anna)", key: Self.app)
      #expect(others.status == 403, "\(others.text)")
      let named = try await bench.begin(Self.app, on: Self.tablet, #","user_id":"\#(Self.anna)""#)
      #expect(named.status == 403)
      // The dialects take it for no user.
      let customer = try await bench.service.send(
        .get, "/v1/subscribers/%24device%3A\(Self.phone)", key: Self.app)
      #expect(customer.status == 400, "\(customer.text)")
      let identify = try await bench.service.send(
        .post, "/v1/subscribers/identify", key: Self.app,
        body: #"{"app_user_id":"\#(user)","new_app_user_id":"eve"}"#)
      #expect(identify.status == 400, "\(identify.text)")
      #expect(try await bench.service.profile("eve").verdict == "free active no_purchases")
      let receipt = try bench.store.simulator.issueReceipt(.lifetime).receiptData
      let cordova = try await bench.service.send(
        .post, "/v1/validate", key: Self.app,
        body: """
          {"id":"com.example.app.forever","type":"non consumable","transaction":{"type":"ios-appstore",\
          "appStoreReceipt":"\(receipt)"},"additionalData":{"applicationUsername":"\(user)"}}
          """)
      #expect(cordova["ok"] == "false", "\(cordova.text)")
      for question in ["status", "entitlements"] {
        let answer = try await bench.service.kit(question, user: "%24device%3A\(Self.phone)")
        #expect(answer.status == 403 && answer.openIAPErrors == ["forbidden"], "\(answer.text)")
      }
      let signed = try bench.store.simulator.issueTransaction(.lifetime).signedTransaction
      let bound = try await bench.service.send(
        .post, "/v1/subscriptions/bind-user/\(Self.app)", key: nil,
        body: #"{"purchaseToken":"\#(signed)","userId":"\#(user)"}"#)
      #expect(bound.status == 403 && bound.openIAPErrors == ["forbidden"], "\(bound.text)")
      #expect(try await bench.service.profile(user).verdict == "pro active trial")
    }
  }

  @Test func `requests of one device are counted, and others go on`() async throws {
    try await run(server: ["user_rate_limit": "1"]) { bench in
      var statuses: [Int] = []
      for _ in 0..<20 where statuses.last != 429 {
        statuses.append(try await bench.service.send(.get, "/v1/trials/\(Self.phone)", key: Self.app).status)
      }
      #expect(statuses.last == 429, "\(statuses)")
      #expect(try await bench.service.send(.get, "/v1/trials/\(Self.tablet)", key: Self.app).status == 404)
    }
  }

  @Test func `a user with as high a tier needs none`() async throws {
    try await run { bench in
      let receipt = try bench.store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      _ = try await bench.service.validate(receipt, user: Self.anna)
      let given = try await bench.service.send(
        .post, "/v1/profiles/cora/grants", body: #"{"tier":"premium","for":"1h"}"#)
      #expect(given.status == 201)
      for user in [Self.anna, "cora"] {
        let refused = try await bench.begin(try bench.token(user))
        #expect(refused.status == 409 && refused["code"] == "trial_not_needed", "\(refused.text)")
      }
      #expect(try await !bench.types().contains("trial.refused"))
      // Neither she nor the device has had one.
      bench.clock.advance(by: 7_200)
      #expect(try await bench.begin(try bench.token("cora")).status == 201)
    }
  }

  // MARK: Servers and support

  @Test func `running trials of a former system go on, each with an outcome`() async throws {
    try await run(sessions: 30) { bench in
      func trial(_ device: String, _ user: String?, _ start: String, _ end: String, used: Int = 5) -> String {
        let name = user.map { #""user_id":"\#($0)","# } ?? ""
        return """
          {"trial":"week",\(name)"device_id":"\(device)","started_at":"\(start)","expires_at":"\(end)",\
          "sessions_used":\(used)}
          """
      }
      func device(_ number: Int) -> String { "00000000-0000-4000-8000-00000000000\(number)" }
      let (start, end) = ("2026-01-13T12:00:00Z", "2026-01-20T12:00:00Z")
      let body =
        "{\"trials\":["
        + [
          trial(device(1), Self.anna, start, end), trial(device(2), nil, start, end),
          trial(device(3), "long", start, "2026-01-20T12:00:01Z"),
          trial(device(4), "over", start, "2026-01-15T12:00:00Z"),
          trial(device(5), "early", "2026-01-15T12:00:01Z", end), trial(device(6), "used", start, end, used: 30),
          trial(device(1), "ben", start, end), trial("phone", "ben", start, end), trial(device(7), "ben", "soon", end),
        ].joined(separator: ",") + "]}"
      let refusals = [String](repeating: "refused", count: 7)
      let answer = try await bench.service.send(.post, "/v1/trials/import", body: body)
      #expect(answer.status == 200)
      let first = try JSONDecoder.countersign.decode(TrialImportResponse.self, from: Data(answer.text.utf8))
      #expect(first.trials.map(\.outcome.rawValue) == ["imported", "imported"] + refusals)
      #expect(
        first.trials.map(\.code) == [
          nil, nil, "malformed_request", "trial_over", "trial_over", "trial_over", "trial_used", "malformed_request",
          "malformed_request",
        ])
      let kept = try #require(first.trials.first?.trial)
      #expect(
        kept.sessionsRemaining == 25 && kept.state == .running && kept.expiresAt.timeIntervalSince1970 == 1_768_910_400)
      #expect(first.trials[1].trial?.userID == "$device:\(device(2))")
      #expect(try await bench.service.profile(Self.anna).verdict == "pro active trial")
      try await eventually { bench.profiles.row(Self.anna)?["subscription_tier"] == .text("pro") }
      let again = try await bench.service.send(.post, "/v1/trials/import", body: body)
      let second = try JSONDecoder.countersign.decode(TrialImportResponse.self, from: Data(again.text.utf8))
      #expect(second.trials.map(\.outcome.rawValue) == ["known", "known"] + refusals)
      #expect(second.trials.first?.trial == kept)
      #expect(try await bench.begin(Self.app, on: device(2))["sessions_used"] == "5")
      let many = (0...100).map { _ in trial(device(1), nil, start, end) }.joined(separator: ",")
      let refused = try await bench.service.send(.post, "/v1/trials/import", body: "{\"trials\":[\(many)]}")
      #expect(refused.status == 400)
      #expect(try await bench.service.send(.post, "/v1/trials/import", body: #"{"trials":[]}"#).status == 400)
    }
  }

  @Test func `support makes a trial longer, with a note, and verdict, history and row follow`() async throws {
    try await run(sessions: 2) { bench in
      #expect(try await bench.begin(try bench.token()).status == 201)
      let path = "/v1/trials/\(Self.phone)"
      func change(_ body: String?, key: String = RunningService.supportKey) async throws -> Answer {
        try await bench.service.send(.patch, path, key: key, body: body)
      }
      for body in [
        nil, "{}", #"{"expires_at":"2026-01-23T12:00:00Z"}"#, #"{"note":"why"}"#,
        #"{"expires_at":"2026-01-15T12:00:00Z","note":"why"}"#, #"{"expires_at":"2027-02-01T12:00:00Z","note":"why"}"#,
        #"{"expires_at":"tomorrow","note":"why"}"#, #"{"sessions_total":0,"note":"why"}"#,
        #"{"sessions_total":100001,"note":"why"}"#,
      ] {
        #expect(try await change(body).status == 400, "\(body ?? "nothing")")
      }
      #expect(try await change(nil).text.contains("'note' is missing"))
      bench.clock.advance(by: 8 * 86_400)
      try await eventually { bench.profiles.row(Self.anna)?["subscription_tier"] == .text("free") }
      let changed = try await change(#"{"expires_at":"2026-01-30T12:00:00Z","sessions_total":40,"note":"Ticket 4711"}"#)
      #expect(changed.status == 200 && changed["state"] == "running" && changed["sessions_total"] == "40")
      #expect(changed["expires_at"] == "2026-01-30T12:00:00Z")
      #expect(try await bench.service.profile(Self.anna)["access_until"] == "2026-01-30T12:00:00Z")
      #expect(bench.profiles.row(Self.anna)?["subscription_tier"] == .text("pro"))
      let history = try await bench.service.send(
        .get, "/v1/profiles/\(Self.anna)/history", key: RunningService.supportKey)
      #expect(history.text.contains("Ticket 4711"))
      // A server need not say why.
      #expect(try await change(#"{"sessions_total":50}"#, key: RunningService.serviceKey)["sessions_total"] == "50")
      #expect(
        try await bench.service.send(
          .patch, "\(path)?user_id=ben", key: RunningService.serviceKey, body: #"{"sessions_total":9}"#
        ).status == 404)
    }
  }

  @Test func `running trials are listed page by page`() async throws {
    try await run { bench async throws in
      for number in 0..<4 {
        let device = "00000000-0000-4000-8000-00000000000\(number)"
        #expect(try await bench.begin(Self.app, on: device).status == 201)
        if number == 0 { bench.clock.advance(by: 6 * 86_400) }
      }
      bench.clock.advance(by: 2 * 86_400)
      func page(_ query: String) async throws -> (devices: [String], next: String?) {
        let answer = try await bench.service.send(.get, "/v1/trials?\(query)", key: RunningService.supportKey)
        let page = try JSONDecoder.countersign.decode(TrialPageResponse.self, from: Data(answer.text.utf8))
        return (page.trials.map { String($0.deviceID.suffix(1)) }, page.next)
      }
      let first = try await page("state=running&limit=2")
      let second = try await page("state=running&limit=2&after=\(try #require(first.next))")
      #expect(first.devices == ["1", "2"] && second.devices == ["3"] && second.next == nil)
      #expect(try await page("").devices == ["0", "1", "2", "3"])
      for query in ["state=over", "limit=0", "limit=201", "after=x"] {
        #expect(try await bench.service.send(.get, "/v1/trials?\(query)").status == 400, "\(query)")
      }
    }
  }
}
