import Foundation
import HTTPTransport
import Synchronization
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// The app's own row of a user: written in line with the request, or after it, until it says what the verdict says.
@Suite struct ProfileWriteBackTests {
  /// A service that writes to a store, both of them beside Apple.
  private func run(
    deadline: String = "4s", policy: [String: String] = [:],
    jobPause: Duration = .milliseconds(20),
    body: @Sendable (RunningService, SimulatedStore, ProfileStoreDouble, MovingClock) async throws -> Void
  ) async throws {
    try await RunningService.besideStores(
      settings: Settings(policy: policy), deadline: deadline, jobPause: jobPause, body: body)
  }

  // MARK: What the row says

  @Test func `a verdict is in the row when the answer comes, column by column`() async throws {
    let cases: [(scenario: Scenario, tier: String, status: String, expiresAt: String?)] = [
      (.renewing, "pro", "active", "2024-07-01T12:00:00.000Z"),
      (.renewalOff, "pro", "cancelled", "2024-06-30T12:00:00.000Z"),
      // Where access ends, which is after the paid period's end.
      (.grace, "pro", "grace_period", "2024-06-28T12:00:00.000Z"),
      (.billingRetry, "pro", "grace_period", "2024-08-11T12:00:00.000Z"),
      // Where it ended.
      (.expiredVoluntary, "free", "expired", "2024-05-16T12:00:00.000Z"),
      (.lifetime, "premium", "active", nil),
      (.empty, "free", "active", nil),
    ]
    try await run { service, store, profiles, _ in
      for (number, expected) in cases.enumerated() {
        let user = "user-\(number)"
        let name = Comment(rawValue: expected.scenario.rawValue)
        let receipt = try store.simulator.issueReceipt(expected.scenario, subscriber: Int64(number + 1))
        let answer = try await service.validate(receipt.receiptData, user: user)
        #expect(answer.status == 200, name)
        #expect(answer["profile_write"] == "committed", name)
        let row = try #require(profiles.row(user), name)
        #expect(row["subscription_tier"] == .text(expected.tier), name)
        #expect(row["subscription_status"] == .text(expected.status), name)
        #expect(row["subscription_expires_at"] == expected.expiresAt.map { .text($0) } ?? .null, name)
        let id = receipt.originalTransactionIDs.first
        #expect(row["original_transaction_id"] == id.map { .text($0) } ?? .null, name)
        // Milliseconds of Apple's clock, where the verdict rests on an answer.
        if id != nil { #expect(row["subscription_version"] == .integer(1_718_452_800_000), name) }
        #expect(try await service.profile(user)["profile_write"] == "committed", name)
      }
      #expect(try await service.profile("stranger")["profile_write"] == "none", "nobody waits for a write")
      #expect(profiles.row("stranger") == nil)
      #expect(!service.log.text.contains("sb_secret"))
    }
  }

  // MARK: A store in trouble

  enum StoreTrouble: String, CaseIterable, Sendable {
    case away, hang, applyAndReset

    func begin(_ store: ProfileStoreDouble) async {
      switch self {
      case .away: await store.refuse()
      case .hang: store.set(.hang)
      case .applyAndReset: store.set(.applyAndReset)
      }
    }

    func end(_ store: ProfileStoreDouble) async throws {
      store.set(.ok)
      if self == .away { try await store.accept() }
    }
  }

  @Test(arguments: StoreTrouble.allCases)
  func `writes that do not get through wait, and only the newest of them is delivered`(
    trouble: StoreTrouble
  ) async throws {
    try await run(deadline: "300ms") { service, store, profiles, clock in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      await trouble.begin(profiles)
      for _ in 0..<3 {
        let answer = try await service.validate(receipt)
        #expect(answer.status == 200)
        #expect(answer.verdict == "pro active renewing")
        // A store that applied and broke off may have been found to have it by the deliverer in between.
        if trouble != .applyAndReset { #expect(answer["profile_write"] == "queued") }
        store.simulator.advanceClock(by: .seconds(1))
        clock.advance(by: 1)
      }
      let refunded = try store.simulator.issueReceipt(.refunded).receiptData
      #expect(try await service.validate(refunded).verdict == "free expired refunded")
      if trouble != .applyAndReset {
        #expect(try await service.profile()["profile_write"] == "queued")
        #expect(try await service.send(.get, "/readyz", key: nil).text.contains(#""depth":1"#))
      }
      let before = profiles.applied.count
      try await trouble.end(profiles)
      try await eventually(clock) { try await service.profile()["profile_write"] == "committed" }
      let row = try #require(profiles.row("user-1"))
      #expect(row["subscription_tier"] == .text("free"))
      #expect(row["subscription_status"] == .text("expired"))
      let versions = profiles.applied.compactMap { $0.values["subscription_version"]?.integer }
      #expect(versions == versions.sorted())
      // An update that was overtaken is never sent after that.
      if trouble != .applyAndReset { #expect(profiles.applied.count == before + 1) }
      try await eventually {
        let ready = try await service.send(.get, "/readyz", key: nil)
        return ready["profile_store"] == "ok" && ready.text.contains(#""depth":0"#)
      }
    }
  }

  @Test func `a store that never answers costs a request its deadline, and once that is known nobody waits`()
    async throws
  {
    try await run(deadline: "1s", jobPause: .seconds(3600)) { service, store, profiles, _ in
      profiles.set(.hang)
      for number in 1...40 {
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: Int64(number)).receiptData
        let began = ContinuousClock.now
        #expect(try await service.validate(receipt, user: "user-\(number)")["profile_write"] == "queued")
        guard number == 1 else { continue }
        let took = began.duration(to: .now)
        // Without the deadline it would be a minute; the rest is for a busy machine.
        #expect(took >= .milliseconds(900) && took < .seconds(40))
      }
      // Five failures open the breaker; after that it is tried with one call now and then.
      #expect(profiles.requests < 20)
      let metrics = try await service.send(.get, "/metrics", key: nil).text
      #expect(!metrics.contains("countersign_breaker_refused_total{upstream=\"profile_store\"} 0\n"))
    }
  }

  @Test func `a row that is not there is reported, and one that is made later is found without another post`()
    async throws
  {
    try await run { service, store, profiles, clock in
      // The look at the start has come to its end.
      try await eventually { service.log.lines.contains { $0.contains("the profile store accepts updates") } }
      profiles.remove("user-1")
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt)["profile_write"] == "missing")
      #expect(try await service.profile()["profile_write"] == "missing")
      #expect(try await service.send(.get, "/metrics", key: nil).text.contains("countersign_missing_profiles 1\n"))
      // It does not wait: nothing would come of it.
      let ready = try await service.send(.get, "/readyz", key: nil)
      #expect(ready["profile_store"] == "ok")
      for member in [#""depth":0"#, #""age_seconds":0"#, #""last_error":null"#, #""missing":1"#] {
        #expect(ready.text.contains(member))
      }
      #expect(service.log.lines.count { $0.contains("the profile store has no such profile") } == 1)
      let before = profiles.requests
      clock.advance(by: 59)
      // A sweep that finds nothing due.
      try await Task.sleep(for: .milliseconds(100))
      #expect(profiles.requests == before)
      profiles.restore("user-1")
      try await eventually(clock) { try await service.profile()["profile_write"] == "committed" }
      #expect(profiles.row("user-1")?["subscription_tier"] == .text("pro"))
      #expect(try await service.send(.get, "/metrics", key: nil).text.contains("countersign_missing_profiles 0\n"))
    }
  }

  /// A key of a role of the operator's own: `{"role":"billing_writer"}`.
  private static let ownRole = "e30.eyJyb2xlIjoiYmlsbGluZ193cml0ZXIifQ.c2lnbmF0dXJl"

  @Test(arguments: [true, false])
  func `a store that is away at the start is looked at when it is back`(hasUpdate: Bool) async throws {
    let clock = MovingClock()
    let isAway = Mutex(true)
    let answer: @Sendable (TestRequest) -> TestAnswer = { _ in
      isAway.withLock { $0 }
        ? .json(#"{"code":"PGRST002","details":null,"hint":null,"message":"no"}"#, status: 503) : .json("[]")
    }
    try await SimulatedStore.run { store in
      try await RawTLSServer.answering(identity: nil, answer: answer) { profiles in
        var section = [String: String].store(profiles.origin)
        section["key"] = "\"\(Self.ownRole)\""
        let settings = Settings(profileStore: section)
        try await RunningService.run(apple: store.apple, settings: settings, now: { clock.date }) { service in
          try await eventually { service.log.lines.contains { $0.contains("the profile store is away") } }
          if hasUpdate {
            let receipt = try store.simulator.issueReceipt(.renewing).receiptData
            #expect(try await service.validate(receipt)["profile_write"] == "queued")
          }
          isAway.withLock { $0 = false }
          try await eventually(clock) {
            try await service.send(.get, "/readyz", key: nil)["profile_store"] == "misconfigured: no_rows_visible"
          }
          if hasUpdate {
            try await eventually(clock) { try await service.profile()["profile_write"] == "missing" }
          }
        }
      }
    }
  }

  // MARK: A row ahead of the ledger

  /// As after an old backup was restored: the row was written by a verdict that this ledger does not have.
  @Test(arguments: [milliseconds(after: 1), .max])
  func `a row of a newer verdict stays, and nobody is told that it says ours`(version: Int64) async throws {
    try await run { service, store, profiles, _ in
      let row: [String: Cell] = ["subscription_tier": .text("premium"), "subscription_version": .integer(version)]
      profiles.overwrite("user-1", with: row)
      let receipt = try store.simulator.issueReceipt(.expiredVoluntary).receiptData
      #expect(try await service.validate(receipt)["profile_write"] == "queued")
      #expect(try await service.profile()["profile_write"] == "queued")
      #expect(profiles.row("user-1") == row)
      let ready = try await service.send(.get, "/readyz", key: nil)
      #expect(ready["profile_store"] == "ok")
      #expect(ready.text.contains(#""depth":1"#))
      #expect(ready.text.contains(#""last_error":"newer_row""#))
      #expect(
        service.log.lines.contains {
          $0.contains(#""level":"error""#) && $0.contains("the profile is newer than the ledger")
        })
      guard version < .max else { return }
      // A later answer of Apple's is newer than both.
      store.simulator.advanceClock(by: .seconds(2))
      #expect(try await service.validate(receipt)["profile_write"] == "committed")
      #expect(profiles.row("user-1")?["subscription_tier"] == .text("free"))
    }
  }

  /// As after an old backup was restored, and the next verdict is counted as a lost one was.
  @Test func `a row with our version and other values is written, and so it goes on`() async throws {
    try await run { service, store, profiles, _ in
      let version = Self.milliseconds(after: 0)
      profiles.overwrite(
        "user-1",
        with: [
          "subscription_tier": .text("premium"), "subscription_status": .text("active"),
          "subscription_version": .integer(version),
        ])
      let receipt = try store.simulator.issueReceipt(.expiredVoluntary).receiptData
      #expect(try await service.validate(receipt)["profile_write"] == "committed")
      let row = try #require(profiles.row("user-1"))
      #expect(row["subscription_tier"] == .text("free"))
      #expect(row["subscription_version"] == .integer(version + 1))
      #expect(service.log.lines.count { $0.contains("the profile has other values under the ledger's version") } == 1)
    }
  }

  private static func milliseconds(after seconds: Double) -> Int64 {
    Int64((noon.timeIntervalSince1970 + seconds) * 1000)
  }

  // MARK: Order

  @Test func `when a purchase moves, the row of who lost it is written first`() async throws {
    try await run(policy: ["ownership": "transfer"]) { service, store, profiles, _ in
      let receipt = try store.simulator.issueReceipt(.renewing)
      let id = try #require(receipt.originalTransactionIDs.first)
      #expect(try await service.validate(receipt.receiptData, user: "alice")["profile_write"] == "committed")
      #expect(try await service.validate(receipt.receiptData, user: "bob")["profile_write"] == "committed")
      #expect(profiles.applied.map(\.user) == ["alice", "alice", "bob"])
      #expect(profiles.row("alice")?["subscription_tier"] == .text("free"))
      #expect(profiles.row("alice")?["original_transaction_id"] == .null)
      #expect(profiles.row("bob")?["subscription_tier"] == .text("pro"))
      #expect(profiles.row("bob")?["original_transaction_id"] == .text(id))
    }
  }

  // MARK: Starting

  @Test func `a start says what is wrong with the store, while somebody is looking`() async throws {
    let expected: [(TestAnswer, String, String, String)] = [
      (.json("[]"), "info", "the profile store accepts updates", "ok"),
      (
        .json(#"{"code":"PGRST301","details":null,"hint":null,"message":"no"}"#, status: 401), "critical",
        "the profile store refuses updates from this service", "misconfigured: PGRST301"
      ),
      (
        .json(#"{"code":"PGRST002","details":null,"hint":null,"message":"no"}"#, status: 503), "warning",
        "the profile store is away", "unavailable: PGRST002"
      ),
    ]
    for (answer, level, message, state) in expected {
      try await RawTLSServer.answering(identity: nil, answer: { _ in answer }) { profiles in
        let settings = Settings(profileStore: .store(profiles.origin))
        try await RunningService.run(apple: .unreachable, settings: settings) { service in
          try await eventually {
            service.log.lines.contains {
              $0.contains(#""level":"\#(level)""#) && $0.contains(#""message":"\#(message)""#)
            }
          }
          let ready = try await service.send(.get, "/readyz", key: nil)
          #expect(ready.status == 200)
          #expect(ready["profile_store"] == state)
          #expect(
            try await service.gauge("countersign_profile_store_misconfigured") == (level == "critical" ? 1 : 0),
            "\(state)")
        }
      }
    }
  }
}

extension [String: String] {
  /// The section `profile_store`, with a version column and a key that is made to write.
  static func store(_ url: String, deadline: String = "4s") -> [String: String] {
    [
      "url": "\"\(url)\"", "key": "\"sb_secret_for_tests\"", "columns": "{ version: subscription_version }",
      "deadline": deadline,
    ]
  }
}
