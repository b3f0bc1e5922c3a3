import Entitlements
import Foundation
import HTTPTransport
import Ledger
import LedgerFixtures
import TestSupport
import Testing

@testable import AppStoreSimulator

/// Anybody has the app's public key. Purchases are taken whatever comes with it, and all else is bounded.
@Suite struct IntakeTests {
  private static let device = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"

  private static func attributes(_ values: [String: String]) -> String {
    let json = values.sorted { $0.key < $1.key }
      .map { #""\#($0.key)":{"value":"\#($0.value)","updated_at_ms":1}"# }.joined(separator: ",")
    return #"{"attributes":{\#(json)}}"#
  }

  @Test func `attributes are measured in bytes`() async throws {
    try await RevenueCatApp.run { app, _, _, _ in
      // One character each, of two thousand bytes and of two more.
      let (fits, exceeds) = (String(repeating: "\u{301}", count: 999), String(repeating: "\u{301}", count: 1_000))
      let answer = try await app.send(
        .post, "/v1/subscribers/u1/attributes",
        Self.attributes(["fits": "ee" + fits, "exceeds": "e" + exceeds, "n" + exceeds: "x", "nul": "a\\u0000b"]))
      #expect(answer.status == 200)
      for name in ["exceeds", "n" + exceeds, "nul"] {
        #expect(answer.text.contains(#""key_name":"\#(name)""#), "\(name)")
      }
      let kept = try await app.service.ledger.attributes(of: "u1")
      #expect(kept.mapValues(\.value) == ["fits": "ee" + fits])
    }
  }

  @Test func `nothing of a refused purchase is kept`() async throws {
    try await RevenueCatApp.run { app, store, _, _ in
      let more = #""attributes":{"a":{"value":"x","updated_at_ms":1}},"#
      let refused = try await app.post("bm90IGEgcmVjZWlwdA==", of: "u1", more: more)
      #expect(refused.status == 400)
      #expect(try await app.service.ledger.attributes(of: "u1") == [:])
      #expect(try await !app.service.ledger.knows("u1"))
      let taken = try await app.post(try store.simulator.issueReceipt(.renewing).receiptData, of: "u1", more: more)
      #expect(taken.status == 200)
      #expect(try await app.service.ledger.attributes(of: "u1")["a"]?.value == "x")
    }
  }

  @Test func `an address has so many new customers and devices an hour, and any number of purchases`() async throws {
    try await RevenueCatApp.run(server: ["new_customers_per_address": "3", "trusted_proxies": "[127.0.0.1]"]) {
      app, store, _, _ in
      let here = [TransportHeader("X-Forwarded-For", "203.0.113.7")]
      #expect(try await app.send(.get, "/v1/subscribers/u1", headers: here).status == 201)
      #expect(
        try await app.send(.post, "/v1/subscribers/u2/attributes", Self.attributes(["a": "x"]), headers: here).status
          == 200)
      let trial = #"{"trial":"week","device_id":"\#(Self.device)"}"#
      #expect(try await app.send(.post, "/v1/trials", trial, headers: here).status == 201)
      let refused: [(TransportRequest.Method, String, String?)] = [
        (.get, "/v1/subscribers/u3", nil),
        (.post, "/v1/subscribers/u3/attributes", Self.attributes(["a": "x"])),
        (.post, "/v1/subscribers/identify", #"{"app_user_id":"u1","new_app_user_id":"u3"}"#),
        (.post, "/v1/subscribers/u1/alias", #"{"new_app_user_id":"u3"}"#),
        (.post, "/v1/trials", trial.replacing("6f0c", with: "7f0c")),
        (.put, "/v1/devices/7f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11", "{}"),
      ]
      for (method, path, body) in refused {
        let answer = try await app.send(method, path, body, headers: here)
        // RevenueCat's SDK forgets attributes after a 429.
        let status = path.hasSuffix("/attributes") ? 503 : 429
        #expect(answer.status == status && answer.headers.contains { $0.name.lowercased() == "retry-after" }, "\(path)")
      }
      #expect(try await !app.service.ledger.knows("u3"))
      // Who is known goes on, and so does whoever has bought.
      #expect(try await app.send(.get, "/v1/subscribers/u1", headers: here).status == 200)
      #expect(try await app.send(.post, "/v1/trials", trial, headers: here).status == 200)
      #expect(
        try await app.post(try store.simulator.issueReceipt(.renewing).receiptData, of: "u3", headers: here).status
          == 200)
      #expect(try await app.send(.get, "/v1/subscribers/u3", headers: here).status == 200)
      // A server's key is counted by its rate alone.
      let server = RevenueCatApp(service: app.service, key: RunningService.serviceKey)
      #expect(try await server.send(.get, "/v1/subscribers/u4", headers: here).status == 201)
      // Another address has its own number.
      let there = [TransportHeader("X-Forwarded-For", "203.0.113.8")]
      #expect(try await app.send(.get, "/v1/subscribers/u5", headers: there).status == 201)
    }
  }

  @Test(.ofTheFile) func `the last of the disk is kept for purchases`() async throws {
    try await RevenueCatApp.run(ledger: ["reserve": "100"]) { app, store, _, clock in
      let event = #"{"events":[{"type":"paywall_viewed","user_id":"u1"}]}"#
      let user = try TokenMint.user("u1", at: clock.date)
      let refused: [(TransportRequest.Method, String, String?, String?)] = [
        (.get, "/v1/subscribers/u1", nil, app.key),
        (.post, "/v1/subscribers/u1/attributes", Self.attributes(["a": "x"]), app.key),
        (.post, "/v1/trials", #"{"trial":"week","device_id":"\#(Self.device)"}"#, app.key),
        (.post, "/v1/events", event, RunningService.serviceKey),
        (.post, "/v1/profiles/me/usage/questions", "{}", user),
        (.post, "/v1/profiles/u1/usage/questions", "{}", RunningService.serviceKey),
      ]
      for (method, path, body, key) in refused {
        let answer = try await app.service.send(method, path, key: key, body: body)
        #expect(answer.status == 503 && answer.text.contains("nearly full"), "\(path) \(answer.status) \(answer.text)")
      }
      let more = #""attributes":{"a":{"value":"x","updated_at_ms":1}},"#
      #expect(
        try await app.post(try store.simulator.issueReceipt(.renewing).receiptData, of: "u1", more: more).status == 200)
      #expect(try await app.service.ledger.attributes(of: "u1") == [:])
      #expect(try await app.send(.get, "/v1/subscribers/u1").status == 200)
      let metrics = try await app.service.send(.get, "/metrics").text
      let free = try #require(metrics.firstMatch(of: /countersign_ledger_disk_free_ratio (0\.\d+)/))
      #expect(try #require(Double(free.1)) < 1)
    }
  }

  @Test func `the events of a user have five megabytes a day`() async throws {
    let clock = MovingClock(Date(timeIntervalSince1970: 1_718_452_800.000_123_456))
    let settings = Settings(server: ["user_rate_limit": "0"], jwt: ["secret": TokenMint.secret])
    try await RunningService.run(apple: .unreachable, settings: settings, now: { clock.date }) { service in
      let text = String(repeating: "x", count: 7_780)
      func post(_ users: [String]) async throws -> Answer {
        let events = users.map { #"{"type":"seen","user_id":"\#($0)","properties":{"text":"\#(text)"}}"# }
        return try await service.send(
          .post, "/v1/events", body: #"{"events":[\#(events.joined(separator: ","))]}"#)
      }
      // 50 events of 8,000 bytes each.
      let many = Array(repeating: "u1", count: 50)
      for _ in 0..<12 { #expect(try await post(many)["recorded"] == "50") }
      #expect(try await post(many)["recorded"] == "25")
      let refused = try await post(many)
      #expect(refused.status == 429 && refused["code"] == "rate_limited")
      #expect(refused.headers.first { $0.name.lowercased() == "retry-after" }?.value == "43200")
      #expect(try await service.ledger.changeEvents(after: 0, limit: 1_000).count == 625)
      // One user's flood holds up no other's events.
      #expect(try await post(["u1", "u2", "u1", "u3"])["recorded"] == "2")
      clock.advance(by: 43_200)
      #expect(try await post(many)["recorded"] == "50")
    }
  }
}
