import Foundation
import Testing

@testable import AppStoreSimulator

/// A receipt that Apple answered a moment ago is not asked about again (`policy.reuse`).
@Suite struct ReuseTests {
  /// Nothing asks Apple but the posts: calls are counted.
  private func run(
    _ reuse: String = "10m", policy: [String: String] = [:],
    body: @Sendable (RunningService, SimulatedStore, MovingClock) async throws -> Void
  ) async throws {
    let settings = Settings(appStore: ["deadline": "4s"], policy: policy.merging(["reuse": reuse]) { $1 })
    try await World.run(settings: settings, jobPause: .seconds(3600)) {
      try await body($0.service, $0.store, $0.clock)
    }
  }

  @Test func `the same receipt again is answered from the ledger, without a call`() async throws {
    try await run { service, store, _ in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      let first = try await service.validate(receipt)
      #expect(first["source"] == "verify_receipt")
      for _ in 0..<5 {
        let again = try await service.validate(receipt)
        #expect(again.status == 200)
        #expect(again.verdict == "pro active renewing")
        #expect(again["source"] == "ledger")
        #expect(again["stale"] == "false")
        #expect(again["evidence_at"] == first["evidence_at"])
      }
      #expect(store.simulator.calls.total == 1)
    }
  }

  @Test func `reuse is no way to another user's purchase`() async throws {
    try await run { service, store, _ in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      #expect(try await service.validate(receipt, user: "alice").status == 200)
      let second = try await service.validate(receipt, user: "mallory")
      #expect(second.status == 409)
      #expect(second["code"] == "owned_by_another_user" && !second.text.contains("alice"))
      #expect(store.simulator.calls.total == 1)
      #expect(try await service.profile("mallory").verdict == "free active no_purchases")
    }
  }

  @Test func `reuse is no way around the sandbox policy`() async throws {
    try await run(policy: ["sandbox": "testers", "testers": "[reviewer]"]) { service, store, _ in
      let receipt = try store.simulator.issueReceipt(.renewing, environment: .sandbox).receiptData
      #expect(try await service.validate(receipt, user: "reviewer").status == 200)
      let calls = store.simulator.calls.total
      #expect(try await service.validate(receipt, user: "anybody")["code"] == "sandbox_refused")
      #expect(store.simulator.calls.total == calls)
    }
  }

  @Test func `an answer in which something has ended since is not used`() async throws {
    try await run { service, store, clock in
      let receipt = try store.simulator.issueReceipt(.renewalOff).receiptData
      #expect(try await service.validate(receipt).verdict == "pro cancelled renewal_off")
      let day: TimeInterval = 86_400
      clock.advance(by: 15 * day - 1)
      store.simulator.setClock(clock.date)
      #expect(try await service.validate(receipt)["source"] == "ledger")
      clock.advance(by: 1)
      store.simulator.setClock(clock.date)
      let ended = try await service.validate(receipt)
      #expect(ended["source"] == "verify_receipt")
      #expect(ended.verdict == "free expired voluntary")
      #expect(store.simulator.calls.total == 2)
    }
  }

  @Test func `a grace period that is over is an end too`() async throws {
    try await run { service, store, clock in
      let receipt = try store.simulator.issueReceipt(.grace).receiptData
      #expect(try await service.validate(receipt).verdict == "pro grace_period billing_grace")
      clock.advance(by: 13 * 86_400)
      store.simulator.setClock(clock.date)
      #expect(try await service.validate(receipt).verdict == "free expired billing_error")
      #expect(store.simulator.calls.total == 2)
    }
  }

  @Test(arguments: [Trouble.status21005, .status21004, .html, .status21003])
  func `a failed call is not used again`(trouble: Trouble) async throws {
    try await run { service, store, _ in
      let receipt = try store.simulator.issueReceipt(.renewing).receiptData
      store.simulator.setTrouble(trouble, count: nil, environment: nil)
      #expect(try await service.validate(receipt).status == (trouble == .status21003 ? 422 : 202))
      store.simulator.setTrouble(nil, count: nil, environment: nil)
      let answer = try await service.validate(receipt)
      #expect(answer.status == 200)
      #expect(answer.verdict == "pro active renewing")
      #expect(answer["source"] == "verify_receipt")
    }
  }

  @Test func `an original transaction ID is asked about by its kept receipt, which may be fresh as well`() async throws
  {
    try await run { service, store, _ in
      let receipt = try store.simulator.issueReceipt(.renewing)
      let id = try #require(receipt.originalTransactionIDs.first)
      #expect(try await service.validate(receipt.receiptData).status == 200)
      let answer = try await service.validate(originalTransactionID: id)
      #expect(answer.verdict == "pro active renewing")
      #expect(answer["source"] == "ledger")
      #expect(store.simulator.calls.total == 1)
    }
  }
}
