import Foundation
import HTTPTransport
import Ledger
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// A new purchase while Apple cannot be asked: what its signature proves counts for a while, and Apple has the last word.
@Suite struct ProvisionalGrantTests {
  private func run(
    _ policy: [String: String] = ["provisional": "24h"],
    body: @Sendable (RunningService, SimulatedStore, ProfileStoreDouble, MovingClock) async throws -> Void
  ) async throws {
    try await RunningService.besideStores(
      settings: Settings(appStore: ["deadline": "4s"], policy: policy), deadline: "5s", body: body)
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

  @Test
  func `a purchase that is running by its signature counts for a day, for the first who posts it, in the row too`()
    async throws
  {
    try await run { service, store, profiles, clock in
      Self.beAway(store)
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      // Posting again does not prolong it, and is still no verdict.
      for _ in 0..<2 {
        let answer = try await service.validate(receipt)
        #expect(answer.status == 202, "\(answer.text)")
        #expect(answer.verdict == "pro active renewing")
        #expect(answer["provisional"] == "true" && answer["stale"] == "false" && answer["source"] == "ledger")
        #expect(answer["access_until"] == "2024-06-16T12:00:00Z")
        #expect(answer["profile_write"] == "committed")
        clock.advance(by: 3600)
      }
      let row = try #require(profiles.row("user-1"))
      #expect(row["subscription_tier"] == .text("pro"))
      #expect(row["subscription_expires_at"] == .text("2024-06-16T12:00:00.000Z"))
      #expect(try await service.profile()["provisional"] == "true")
      expectNothing(try await service.validate(receipt, user: "bob"))
      #expect(profiles.row("bob") == nil)
      clock.advance(by: 86_400 - 7200 - 1)
      #expect(try await service.profile().verdict == "pro active renewing")
      clock.advance(by: 1)
      #expect(try await service.profile().verdict == "free active no_purchases")
      try await eventually { profiles.row("user-1")?["subscription_tier"] == .text("free") }
      #expect(profiles.row("user-1")?["subscription_expires_at"] == .null)
      expectNothing(try await service.validate(receipt))
    }
  }

  @Test func `a sandbox purchase that its user may not use is refused, and does not wait for Apple`() async throws {
    let policy = ["provisional": "24h", "sandbox": "testers", "testers": "[reviewer]"]
    try await run(policy) { service, store, _, _ in
      Self.beAway(store)
      let one = try store.simulator.issueReceipt(.renewing, environment: .sandbox, subscriber: 1).receiptData
      let refused = try await service.validate(one, user: "anybody")
      #expect(refused.status == 422 && refused["code"] == "sandbox_refused", "\(refused.text)")
      let two = try store.simulator.issueReceipt(.renewing, environment: .sandbox, subscriber: 2).receiptData
      let tester = try await service.validate(two, user: "reviewer")
      #expect(tester.verdict == "pro active renewing")
      #expect(tester["provisional"] == "true")
      #expect(tester["environment"] == "sandbox")
    }
  }

  @Test func `Apple's refusal withdraws it, and Apple's verdict takes its place, in the row too`() async throws {
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
      let other = try store.simulator.issueReceipt(.lifetime, subscriber: 2).receiptData
      #expect(try await service.validate(other).verdict == "premium active lifetime")
      // Long before its time was over.
      #expect(clock.date < noon.addingTimeInterval(86_400))
      store.simulator.setTrouble(nil, count: nil, environment: nil)
      try await eventually(clock, step: 10) { try await service.profile()["provisional"] == "false" }
      let read = try await service.profile()
      #expect(read.verdict == "premium active lifetime" && read["access_until"] == "null")
      try await eventually { profiles.row("user-1")?["subscription_expires_at"] == .null }
      let versions = profiles.applied.compactMap { $0.values["subscription_version"]?.integer }
      #expect(zip(versions, versions.dropFirst()).allSatisfy { $0 < $1 })
    }
  }
}
