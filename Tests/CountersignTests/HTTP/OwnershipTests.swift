import Foundation
import Testing

@testable import AppStoreSimulator
@testable import Countersign

/// One purchase, two users: who has it is a policy, and never both.
@Suite struct OwnershipTests {
  static let clock = Date(timeIntervalSince1970: 1_718_452_800)

  private func run(
    _ policy: String, body: @Sendable (RunningService, SimulatedStore) async throws -> Void
  ) async throws {
    try await SimulatedStore.run(at: Self.clock) { store in
      let settings = Settings(policy: ["ownership": policy])
      try await RunningService.run(apple: store.apple, settings: settings, now: { Self.clock }) { service in
        try await body(service, store)
      }
    }
  }

  @Test func `keep: the second user is refused and not told who has it`() async throws {
    try await run("keep") { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
      #expect(try await service.validate(receipt.receiptData, user: "alice").status == 200)
      let second = try await service.validate(receipt.receiptData, user: "mallory")
      #expect(second.status == 409)
      #expect(second["code"] == "owned_by_another_user")
      #expect(!second.text.contains("alice"))
      #expect(try await service.profile("mallory").verdict == "free active no_purchases")
      #expect(try await service.profile("alice").verdict == "pro active renewing")
      #expect(try await service.validate(receipt.receiptData, user: "alice").status == 200)
    }
  }

  @Test func `transfer: the last to present it has it, and the loser is judged without it`() async throws {
    try await run("transfer") { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
      #expect(try await service.validate(receipt.receiptData, user: "alice").status == 200)
      #expect(try await service.validate(receipt.receiptData, user: "bob").verdict == "pro active renewing")
      #expect(try await service.profile("bob").verdict == "pro active renewing")
      #expect(try await service.profile("alice").verdict == "free active no_purchases")
    }
  }

  @Test func `transfer_if_inactive: an ended purchase moves, a running one does not`() async throws {
    try await run("transfer_if_inactive") { service, store in
      let running = try store.simulator.issueReceipt(.renewing, subscriber: 1)
      #expect(try await service.validate(running.receiptData, user: "alice").status == 200)
      #expect(try await service.validate(running.receiptData, user: "bob").status == 409)
      let ended = try store.simulator.issueReceipt(.expiredVoluntary, subscriber: 2)
      #expect(try await service.validate(ended.receiptData, user: "carol").status == 200)
      #expect(try await service.validate(ended.receiptData, user: "dave").verdict == "free expired voluntary")
      #expect(try await service.profile("carol").verdict == "free active no_purchases")
    }
  }

  @Test(arguments: ["keep", "transfer", "transfer_if_inactive"])
  func `an original transaction ID alone moves nothing`(policy: String) async throws {
    try await run(policy) { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
      let id = try #require(receipt.originalTransactionIDs.first)
      #expect(try await service.validate(receipt.receiptData, user: "alice").status == 200)
      store.simulator.resetCalls()
      let answer = try await service.validate(originalTransactionID: id, user: "mallory")
      #expect(answer.status == 409)
      #expect(store.simulator.calls.total == 0)
      #expect(try await service.profile("alice").verdict == "pro active renewing")
      #expect(try await service.profile("mallory").verdict == "free active no_purchases")
    }
  }

  @Test func `under transfer, an ID refreshes what is the user's and takes nothing back from another`() async throws {
    try await run("transfer") { service, store in
      // Two purchases in one receipt; the second moves to bob by a receipt of its own.
      let both = try store.simulator.issueReceipt(.twoGroups, subscriber: 1)
      #expect(try await service.validate(both.receiptData, user: "alice").verdict == "premium active renewing")
      let ids = both.originalTransactionIDs
      #expect(ids.count == 2)
      #expect(try await service.validate(both.receiptData, user: "bob").verdict == "premium active renewing")
      for id in ids {
        let answer = try await service.validate(originalTransactionID: id, user: "alice")
        #expect(answer.status == 409)
      }
      #expect(try await service.profile("bob").verdict == "premium active renewing")
      #expect(try await service.profile("alice").verdict == "free active no_purchases")
    }
  }

  @Test func `a purchase that the catalog does not know has one owner too, who has it when it does`() async throws {
    let directory = FileManager.default.temporaryDirectory.appending(path: "countersign-\(UUID())")
    defer { try? FileManager.default.removeItem(at: directory) }
    try await SimulatedStore.run(at: Self.clock) { store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let empty = try store.simulator.issueReceipt(.empty, subscriber: 2).receiptData
      var narrow = Settings()
      narrow.products = ["com.example.app.forever": "{ tier: premium, kind: lifetime }"]
      try await RunningService.run(
        apple: store.apple, settings: narrow, directory: directory, now: { Self.clock }
      ) { service in
        let first = try await service.validate(receipt, user: "alice")
        #expect(first.verdict == "free active no_known_product")
        #expect(first["environment"] == "production")
        #expect(try await service.validate(receipt, user: "mallory").status == 409)
        #expect(try await service.validate(receipt, user: "alice").status == 200)
        // A receipt without any purchase is contested by nobody.
        for user in ["alice", "mallory"] { #expect(try await service.validate(empty, user: user).status == 200) }
      }
      try await RunningService.run(apple: store.apple, directory: directory, now: { Self.clock }) {
        (service) async throws in
        #expect(try await service.validate(receipt, user: "mallory").status == 409)
        #expect(try await service.profile("alice").verdict == "pro active renewing")
      }
    }
  }

  @Test func `many users posting one receipt at once: one has it`() async throws {
    try await run("keep") { service, store in
      let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let statuses = try await withThrowingTaskGroup(of: Int.self) { group in
        for number in 0..<200 {
          group.addTask { try await service.validate(receipt, user: "user-\(number)").status }
        }
        return try await group.reduce(into: [Int: Int]()) { $0[$1, default: 0] += 1 }
      }
      #expect(statuses == [200: 1, 409: 199])
    }
  }

  @Test func `a user's tier is the best of everything they own, over all their receipts`() async throws {
    try await run("keep") { service, store in
      let pro = try store.simulator.issueReceipt(.renewing, subscriber: 1).receiptData
      let premium = try store.simulator.issueReceipt(.lifetime, subscriber: 2).receiptData
      let ended = try store.simulator.issueReceipt(.expiredVoluntary, subscriber: 3).receiptData
      #expect(try await service.validate(pro).verdict == "pro active renewing")
      #expect(try await service.validate(premium).verdict == "premium active lifetime")
      // An answer that does not mention the lifetime purchase says nothing about it.
      #expect(try await service.validate(ended).verdict == "premium active lifetime")
      #expect(try await service.validate(pro).verdict == "premium active lifetime")
    }
  }
}
