import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Ledger

/// The state that operators are shown in `/metrics` and `/readyz`.
@Suite struct MetricsTests {
  static let canary = "canary-user-5c1f"

  /// The answer, read strictly.
  struct Page {
    var exposition: Exposition

    /// By the name without its beginning, and with one label as it is written: `breaker_open{upstream="profile_store"}`.
    subscript(name: String) -> Double? {
      guard let match = name.wholeMatch(of: /([a-z_]+)\{([a-z_]+)="([^"]*)"\}/) else {
        return exposition["countersign_" + name]
      }
      return exposition["countersign_" + match.1, [String(match.2): String(match.3)]]
    }
  }

  private func run(
    body: @Sendable (RunningService, SimulatedStore, ProfileStoreDouble, MovingClock) async throws -> Void
  ) async throws {
    // The jobs rest: what waits goes on waiting.
    try await RunningService.besideStores(
      settings: Settings(appStore: ["deadline": "4s"]), deadline: "1s", jobPause: .seconds(3600)
    ) { service, store, profiles, clock in
      // The first look of every job is over before anything waits.
      try await eventually { profiles.requests > 0 }
      try await body(service, store, profiles, clock)
    }
  }

  private func metrics(_ service: RunningService) async throws -> Page {
    let answer = try await service.send(.get, "/metrics", key: nil)
    #expect(answer.status == 200)
    #expect(answer.header("Content-Type") == "text/plain; version=0.0.4; charset=utf-8")
    return Page(exposition: try Exposition(answer.text))
  }

  @Test(.ofTheFile) func `a ledger that takes no records is down, though it can be read`() async throws {
    try await run { service, _, _, _ in
      #expect(try await metrics(service)["ledger_up"] == 1)
      // The disk is full.
      try await service.ledger.engine.submit { tables in try tables.execute("PRAGMA max_page_count = 1") }
      let large = String(repeating: "A", count: 256 * 1024)
      await #expect(throws: LedgerError.self) {
        try await service.ledger.engine.submit { tables in try tables.keepMemo("large", large) }
      }
      let metrics = try await metrics(service)
      #expect(metrics["ledger_up"] == 0)
      #expect(metrics["pending_receipts"] == 0)
      try await service.ledger.engine.submit { tables in try tables.execute("PRAGMA max_page_count = 1000000") }
      #expect(try await self.metrics(service)["ledger_up"] == 1)
    }
  }

  @Test func `an idle service has nothing waiting, and says so in the format of Prometheus`() async throws {
    try await run { service, _, _, _ in
      let metrics = try await metrics(service)
      let zeros = [
        "pending_receipts", "pending_receipts_age_seconds", "rechecks_due", "rechecks_age_seconds", "outbox_depth",
        "outbox_age_seconds", "missing_profiles", "downgrade_brake_engaged", "clock_skew_seconds",
      ]
      for name in zeros { #expect(metrics[name] == 0, "\(name)") }
      #expect(metrics["ledger_up"] == 1)
      for upstream in ["app_store_production", "app_store_sandbox", "profile_store"] {
        #expect(metrics["breaker_open{upstream=\"\(upstream)\"}"] == 0)
        #expect(metrics["breaker_refused_total{upstream=\"\(upstream)\"}"] == 0)
      }
    }
  }

  @Test func `without a profile store there are no metrics of one`() async throws {
    try await RunningService.run(apple: .unreachable) { service in
      let metrics = try await metrics(service)
      #expect(metrics["outbox_depth"] == nil)
      #expect(metrics["breaker_open{upstream=\"profile_store\"}"] == nil)
    }
  }

  @Test func `waiting writes are counted, with the age of the oldest, and without a word of whose they are`()
    async throws
  {
    try await run { service, store, profiles, clock in
      // A row that is missing, two that are not up to date, one of them for an hour.
      profiles.remove("gone-\(Self.canary)")
      let gone = try store.simulator.issueReceipt(.renewalOff, subscriber: 1).receiptData
      #expect(try await service.validate(gone, user: "gone-\(Self.canary)")["profile_write"] == "missing")
      profiles.set(.http500)
      for number in 1...2 {
        let receipt = try store.simulator.issueReceipt(.renewalOff, subscriber: Int64(number + 1)).receiptData
        #expect(try await service.validate(receipt, user: "\(Self.canary)-\(number)")["profile_write"] == "queued")
        if number == 1 { clock.advance(by: 200) }
      }
      // A purchase that waits for Apple.
      store.simulator.setTrouble(.http503, count: nil, environment: nil)
      let pending = try store.simulator.issueReceipt(.lifetime, subscriber: 9)
      #expect(try await service.validate(pending.receiptData, user: "waiting-\(Self.canary)").status == 202)
      clock.advance(by: 100)

      let metrics = try await metrics(service)
      #expect(metrics["missing_profiles"] == 1)
      #expect(metrics["outbox_depth"] == 2)
      #expect(metrics["outbox_age_seconds"] == 300)
      #expect(metrics["pending_receipts"] == 1)
      #expect(metrics["pending_receipts_age_seconds"] == 100)
      #expect(metrics["rechecks_due"] == 0)

      let ready = try await service.send(.get, "/readyz", key: nil)
      #expect(ready.status == 200)
      struct Readiness: Decodable, Equatable {
        struct Outbox: Decodable, Equatable {
          var depth: Int
          var age_seconds: Int
          var last_error: String?
          var missing: Int
        }
        var status: String
        var ledger: String
        var app_store: String
        var profile_store: String
        var outbox: Outbox?
        var pending_receipts: Int?
        var downgrade_brake: String
        var clock: String
      }
      let body = try JSONDecoder().decode(Readiness.self, from: Data(ready.body))
      #expect(
        body
          == Readiness(
            status: "ok", ledger: "ok", app_store: "unavailable", profile_store: "ok",
            outbox: .init(depth: 2, age_seconds: 300, last_error: "XX000", missing: 1), pending_receipts: 1,
            downgrade_brake: "released", clock: "ok"))

      // 15 days later the subscriptions have ended.
      clock.advance(by: 15 * 86_400)
      let later = try await self.metrics(service)
      #expect(later["rechecks_due"] == 3)
      #expect((later["rechecks_age_seconds"] ?? -1) == 300)

      for text in [ready.text, try await service.send(.get, "/metrics", key: nil).text] {
        #expect(!text.contains(Self.canary))
        #expect(!text.contains("sb_secret"))
        #expect(!text.contains(SimulatedStore.sharedSecret))
        #expect(!text.contains(RunningService.serviceKey))
        #expect(!text.contains(pending.originalTransactionIDs.first ?? "-"))
      }
    }
  }

  @Test func `a breaker that is open shows, and so does each call that was not made`() async throws {
    try await run { service, store, profiles, _ in
      profiles.set(.http500)
      store.simulator.setTrouble(.http500, count: nil, environment: .production)
      for number in 1...10 {
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: Int64(number)).receiptData
        _ = try await service.validate(receipt, user: "user-\(number)")
      }
      let metrics = try await metrics(service)
      #expect((metrics["breaker_open{upstream=\"app_store_production\"}"] ?? 0) > 0)
      #expect((metrics["breaker_refused_total{upstream=\"app_store_production\"}"] ?? 0) > 0)
      #expect(metrics["breaker_open{upstream=\"app_store_sandbox\"}"] == 0)
      #expect(metrics["breaker_open{upstream=\"profile_store\"}"] == 0)
    }
  }

  @Test func `a ledger that cannot be read shows, and the other metrics are there all the same`() async throws {
    try await run { service, _, _, _ in
      await service.ledger.close()
      let metrics = try await metrics(service)
      #expect(metrics["ledger_up"] == 0)
      #expect(metrics["outbox_depth"] == nil)
      #expect(metrics["downgrade_brake_engaged"] == 0)
      let ready = try await service.send(.get, "/readyz", key: nil)
      #expect(ready.status == 503)
      #expect(ready["status"] == "unready")
      #expect(ready["ledger"] == "closed")
      #expect(try await service.send(.get, "/livez", key: nil).status == 200)
    }
  }
}
