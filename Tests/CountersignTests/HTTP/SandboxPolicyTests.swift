import Entitlements
import Foundation
import HTTPTransport
import Ledger
import Testing

@testable import AppStoreSimulator
@testable import Countersign

@Suite struct SandboxPolicyTests {
  @Test(
    arguments: [
      (["sandbox": "accept"], 200, 200), (["sandbox": "testers", "testers": "[reviewer]"], 200, 422),
      (["sandbox": "reject"], 422, 422),
    ])
  func `the sandbox policy says which users may use a sandbox purchase`(
    policy: [String: String], reviewer: Int, anybody: Int
  ) async throws {
    try await RunningService.besideStore(settings: Settings(policy: policy)) { service, store in
      for (number, (user, status)) in [("reviewer", reviewer), ("anybody", anybody)].enumerated() {
        let receipt = try store.simulator.issueReceipt(
          .renewing, environment: .sandbox, subscriber: Int64(number + 1))
        let answer = try await service.validate(receipt.receiptData, user: user)
        #expect(answer.status == status, "\(user): \(answer.text)")
        if status == 200 {
          #expect(answer["environment"] == "sandbox")
        } else {
          #expect(answer["code"] == "sandbox_refused")
          #expect(try await service.profile(user).verdict == "free active no_purchases")
        }
      }
      let real = try store.simulator.issueReceipt(.renewing, subscriber: 9)
      #expect(try await service.validate(real.receiptData, user: "anybody").verdict == "pro active renewing")
    }
  }

  @Test func `sandbox purchases recorded before the policy changed count until somebody releases what it takes`()
    async throws
  {
    let directory = try TemporaryDirectory()
    try await SimulatedStore.run { store in
      try await RunningService.run(apple: store.apple, directory: directory.url) { service in
        let receipt = try store.simulator.issueReceipt(.renewing, environment: .sandbox, subscriber: 1)
        #expect(try await service.validate(receipt.receiptData).verdict == "pro active renewing")
      }
      let strict = Settings(policy: ["sandbox": "reject"])
      try await RunningService.run(apple: store.apple, settings: strict, directory: directory.url) {
        service in
        try await eventually { try await service.send(.get, "/v1/brake")["withheld_by_rules"] == "1" }
        let read = try await service.profile()
        #expect(read.verdict == "pro active renewing")
        #expect(read["stale"] == "true")
        #expect(try await service.send(.delete, "/v1/brake")["withheld_by_rules"] == "0")
        try await eventually { try await service.profile().verdict == "free active no_purchases" }
        let recorded = try await service.ledger.profile(of: "user-1")?.entitlement
        #expect(recorded?.reason == .noPurchases)
      }
    }
  }
}
