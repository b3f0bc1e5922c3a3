import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// A new purchase while Apple cannot be asked: what its signature proves counts for a while, and Apple has the last word.
@Suite struct ProvisionalGrantTests {
  static let start = Date(timeIntervalSince1970: 1_718_452_800)

  private func run(
    _ policy: [String: String] = ["provisional": "24h"],
    body: @Sendable (RunningService, SimulatedStore, ProfileStoreDouble, MovingClock) async throws -> Void
  ) async throws {
    let clock = MovingClock(Self.start)
    try await SimulatedStore.run(at: Self.start) { store in
      try await ProfileStoreDouble.running { profiles in
        let settings = Settings(
          appStore: ["deadline": "4s"], policy: policy, profileStore: .store(profiles.url, deadline: "5s"))
        try await RunningService.run(apple: store.apple, settings: settings, now: { clock.date }) { service in
          try await body(service, store, profiles, clock)
        }
      }
    }
  }

  private static func beAway(_ store: SimulatedStore) {
    store.simulator.setTrouble(.http503, count: nil, environment: nil)
  }

  /// No answer grants anything.
  private func expectNothing(
    _ answer: Answer, status: Int = 202, verdict: String = "free active no_purchases",
    sourceLocation: SourceLocation = #_sourceLocation
  ) {
    #expect(answer.status == status, "\(answer.text)", sourceLocation: sourceLocation)
    #expect(answer.verdict == verdict, sourceLocation: sourceLocation)
    #expect(answer["provisional"] == "false", sourceLocation: sourceLocation)
    #expect(answer["access_until"] == "null", sourceLocation: sourceLocation)
  }

  // MARK: What is granted

  @Test(arguments: [
    ("24h", Scenario.renewing, "pro active renewing", "2024-06-16T12:00:00Z"),
    ("1h", .renewing, "pro active renewing", "2024-06-15T13:00:00Z"),
    // The receipt's own end comes first.
    ("30d", .renewalOff, "pro active renewing", "2024-06-30T12:00:00Z"),
    ("24h", .lifetime, "premium active lifetime", "2024-06-16T12:00:00Z"),
  ])
  func `a purchase that is running by its signature counts, for as long as the policy says and not longer`(
    policy: String, scenario: Scenario, verdict: String, until: String
  ) async throws {
    try await run(["provisional": policy]) { service, store, profiles, _ in
      Self.beAway(store)
      let answer = try await service.validate(try store.simulator.issueReceipt(scenario).receiptData)
      #expect(answer.status == 202)
      #expect(answer.verdict == verdict)
      #expect(answer["provisional"] == "true")
      #expect(answer["stale"] == "false")
      #expect(answer["source"] == "ledger")
      #expect(answer["access_until"] == until)
      #expect(answer["profile_write"] == "committed")
      let row = try #require(profiles.row("user-1"))
      #expect(row["subscription_tier"]?.text == answer["tier"])
      #expect(row["subscription_expires_at"] == .text(until.replacing("Z", with: ".000Z")))
      let read = try await service.profile()
      #expect(read.verdict == verdict)
      #expect(read["provisional"] == "true")
    }
  }

  @Test func `with policy.provisional 0 nothing counts before Apple was asked`() async throws {
    try await run(["provisional": "0"]) { service, store, profiles, _ in
      Self.beAway(store)
      expectNothing(try await service.validate(try store.simulator.issueReceipt(.renewing).receiptData))
      #expect(profiles.row("user-1") == nil)
    }
  }

  @Test(arguments: [Scenario.expiredVoluntary, .billingRetry, .refunded, .lifetimeRefunded, .unknownProduct, .empty])
  func `a purchase that has ended, was taken back, or is not sold here grants nothing`(scenario: Scenario) async throws
  {
    try await run { service, store, _, _ in
      Self.beAway(store)
      let answer = try await service.validate(try store.simulator.issueReceipt(scenario).receiptData)
      #expect(answer["tier"] == "free", "\(answer.text)")
      #expect(answer["provisional"] == "false")
    }
  }

  // MARK: What is not granted

  @Test func `another app's purchase is refused at once`() async throws {
    try await run { service, store, profiles, _ in
      Self.beAway(store)
      let answer = try await service.validate(try store.simulator.issueReceipt(.wrongApp).receiptData)
      #expect(answer.status == 422)
      #expect(answer["code"] == "wrong_app")
      #expect(try await service.profile().verdict == "free active no_purchases")
      #expect(profiles.row("user-1") == nil)
    }
  }

  @Test func `a sandbox purchase grants nothing to who may not use it`() async throws {
    let policy = ["provisional": "24h", "sandbox": "testers", "testers": "[reviewer]"]
    try await run(policy) { service, store, _, _ in
      Self.beAway(store)
      let one = try store.simulator.issueReceipt(.renewing, environment: .sandbox, subscriber: 1).receiptData
      expectNothing(try await service.validate(one, user: "anybody"))
      let two = try store.simulator.issueReceipt(.renewing, environment: .sandbox, subscriber: 2).receiptData
      let tester = try await service.validate(two, user: "reviewer")
      #expect(tester.verdict == "pro active renewing")
      #expect(tester["provisional"] == "true")
      #expect(tester["environment"] == "sandbox")
    }
  }

  @Test func `with policy.sandbox reject, no sandbox purchase grants anything`() async throws {
    try await run(["provisional": "24h", "sandbox": "reject"]) { service, store, _, _ in
      Self.beAway(store)
      let receipt = try store.simulator.issueReceipt(.renewing, environment: .sandbox).receiptData
      expectNothing(try await service.validate(receipt))
    }
  }

  @Test(arguments: ["keep", "transfer"])
  func `a purchase that another user owns grants nothing`(ownership: String) async throws {
    try await run(["provisional": "24h", "ownership": ownership]) { service, store, profiles, clock in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt, user: "alice").verdict == "pro active renewing")
      Self.beAway(store)
      expectNothing(try await service.validate(receipt, user: "bob"))
      // Also by a receipt that is newer than all that is known.
      store.simulator.advanceClock(by: .seconds(60))
      clock.advance(by: 60)
      let newer = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(newer != receipt)
      expectNothing(try await service.validate(newer, user: "bob"))
      #expect(try await service.profile("alice").verdict == "pro active renewing")
      #expect(profiles.row("bob") == nil)
    }
  }

  @Test func `a purchase known as refunded grants nothing, though a receipt does not tell the refund`() async throws {
    try await run { service, store, _, clock in
      let refunded = try store.simulator.issueReceipt(.refunded, subscriber: 1)
      #expect(try await service.validate(refunded.receiptData).verdict == "free expired refunded")
      Self.beAway(store)
      store.simulator.advanceClock(by: .seconds(3600))
      clock.advance(by: 3600)
      // The same transaction IDs, newer than the refund, and with none in it.
      let silent = try store.simulator.issueReceipt(.renewalOff, subscriber: 1)
      #expect(silent.originalTransactionIDs == refunded.originalTransactionIDs)
      let answer = try await service.validate(silent.receiptData)
      #expect(answer.verdict == "free expired refunded")
      #expect(answer["provisional"] == "false")
      #expect(try await service.profile().verdict == "free expired refunded")
    }
  }

  @Test func `only the first of two users with one purchase is granted it`() async throws {
    try await run { service, store, profiles, _ in
      Self.beAway(store)
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt, user: "alice")["provisional"] == "true")
      expectNothing(try await service.validate(receipt, user: "bob"))
      #expect(profiles.row("bob") == nil)
    }
  }

  @Test func `posting again does not prolong it, and is still no verdict`() async throws {
    try await run { service, store, _, clock in
      Self.beAway(store)
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt)["access_until"] == "2024-06-16T12:00:00Z")
      clock.advance(by: 3600)
      let again = try await service.validate(receipt)
      #expect(again.status == 202, "\(again.text)")
      #expect(again["provisional"] == "true")
      #expect(again["access_until"] == "2024-06-16T12:00:00Z")
      // Nor does another receipt of the same purchase.
      store.simulator.advanceClock(by: .seconds(3600))
      let newer = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let other = try await service.validate(newer)
      #expect(other.status == 202, "\(other.text)")
      #expect(other["access_until"] == "2024-06-16T12:00:00Z")
    }
  }

  // MARK: How it ends

  @Test func `a grant ends by time, in the row too, and does not come back by posting again`() async throws {
    try await run { service, store, profiles, clock in
      Self.beAway(store)
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt)["provisional"] == "true")
      clock.advance(by: 86_400 - 1)
      #expect(try await service.profile().verdict == "pro active renewing")
      clock.advance(by: 1)
      #expect(try await service.profile().verdict == "free active no_purchases")
      try await eventually { profiles.row("user-1")?["subscription_tier"] == .text("free") }
      #expect(profiles.row("user-1")?["subscription_expires_at"] == .null)
      let again = try await service.validate(receipt)
      #expect(again.status == 202, "\(again.text)")
      #expect(again["tier"] == "free", "\(again.text)")
      #expect(again["provisional"] == "false")
    }
  }

  @Test func `Apple's refusal withdraws it, in the row too`() async throws {
    try await run { service, store, profiles, clock in
      Self.beAway(store)
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt)["provisional"] == "true")
      store.simulator.setTrouble(.status21003, count: nil, environment: nil)
      try await eventually(clock, step: 10) { try await service.profile().verdict == "free active no_purchases" }
      try await eventually { profiles.row("user-1")?["subscription_tier"] == .text("free") }
      // The receipt waits, as it was acknowledged, and posting it again brings no second grant.
      #expect(try await service.ledger.backlog(at: .distantFuture).pendingReceipts == 1)
      Self.beAway(store)
      #expect(try await service.validate(receipt)["provisional"] != "true")
      // Long before its time was over.
      #expect(clock.date < Self.start.addingTimeInterval(86_400))
    }
  }

  @Test func `Apple's verdict takes its place, in the row too`() async throws {
    try await run { service, store, profiles, clock in
      Self.beAway(store)
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt)["provisional"] == "true")
      store.simulator.setTrouble(nil, count: nil, environment: nil)
      try await eventually(clock, step: 10) { try await service.profile()["provisional"] == "false" }
      let read = try await service.profile()
      #expect(read.verdict == "pro active renewing")
      #expect(read["access_until"] == "2024-07-01T12:00:00Z")
      #expect(read["will_renew"] == "true")
      try await eventually {
        profiles.row("user-1")?["subscription_expires_at"] == .text("2024-07-01T12:00:00.000Z")
      }
      let versions = profiles.applied.compactMap { $0.values["subscription_version"]?.integer }
      #expect(zip(versions, versions.dropFirst()).allSatisfy { $0 < $1 })
    }
  }

  @Test func `a refund that Apple tells of takes its place as well`() async throws {
    try await run { service, store, profiles, clock in
      Self.beAway(store)
      let receipt = try store.simulator.issueReceipt(.renewalOff).receiptData
      #expect(try await service.validate(receipt)["provisional"] == "true")
      // By the time Apple is back, it is all over.
      store.simulator.advanceClock(by: .seconds(20 * 86_400))
      store.simulator.setTrouble(nil, count: nil, environment: nil)
      try await eventually(clock, step: 10) { try await service.profile().verdict == "free expired voluntary" }
      try await eventually { profiles.row("user-1")?["subscription_status"] == .text("expired") }
    }
  }

  @Test func `the user who validates the purchase first when Apple is back has it, and the other's grant ends`()
    async throws
  {
    try await run { service, store, profiles, clock in
      Self.beAway(store)
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt, user: "alice")["provisional"] == "true")
      expectNothing(try await service.validate(receipt, user: "bob"))
      store.simulator.setTrouble(nil, count: nil, environment: nil)
      try await eventually(clock, step: 10) {
        try await service.ledger.backlog(at: .distantFuture).pendingReceipts == 0
      }
      // The longest waiting was settled first.
      #expect(try await service.profile("alice")["provisional"] == "false")
      #expect(try await service.profile("alice").verdict == "pro active renewing")
      #expect(try await service.profile("bob").verdict == "free active no_purchases")
      #expect(profiles.row("bob")?["subscription_tier"] ?? .text("free") == .text("free"))
    }
  }
}
