import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator

/// Apple is told the users of purchases that were made outside the app.
@Suite struct AccountTokenTests {
  static let start = Date(timeIntervalSince1970: 1_718_452_800.123456789)
  private static let anna = "6f0c2f3e-0d3e-4f83-9a52-2a1c9d6f6a11"
  private static let ben = "11111111-1111-4111-8111-111111111111"

  private static func run(
    policy: String = "user_id", withSecret: Bool = false, _ body: @Sendable (World) async throws -> Void
  ) async throws {
    try await World.run(
      at: start, withServerAPI: true, withSecret: withSecret,
      settings: Settings(policy: ["app_account_token": policy]), body: body)
  }

  @Test func `a purchase made outside the app names its user once it is claimed, and is nobody else's then`()
    async throws
  {
    try await Self.run { world in
      let bought = try world.simulator.issueTransaction(.subscriber)
      #expect(try await world.service.validate(bought.signedTransaction, user: Self.anna.uppercased()).status == 200)
      try await eventually { world.told(bought) == [Self.anna] }
      try await eventually { try await world.due() == 0 }
      let metrics = try await world.service.send(.get, "/metrics", key: nil).text
      #expect(metrics.contains(#"countersign_account_tokens_total{outcome="told"} 1"#))
      world.pass(60)
      let renewed = try world.simulator.newestTransaction(ofOriginal: bought.originalTransactionID)
      #expect(try await world.service.validate(renewed.signedTransaction, user: Self.ben).status == 409)
      #expect(try await world.service.validate(renewed.signedTransaction, user: Self.anna).status == 200)
      #expect(world.told(bought).count == 1)
    }
  }

  @Test func `Apple is told nothing of a user without a UUID, nor where tokens are only a hint`() async throws {
    try await Self.run { world in
      let bought = try world.simulator.issueTransaction(.subscriber)
      _ = try await world.service.validate(bought.signedTransaction, user: "anna")
      let shared = try world.simulator.issueTransaction(.familyShared, subscriber: 2)
      _ = try await world.service.validate(shared.signedTransaction, user: Self.anna)
      let named = try world.simulator.issueTransaction(
        .subscriber, subscriber: 3, appAccountToken: UUID(uuidString: Self.ben))
      _ = try await world.service.validate(named.signedTransaction, user: Self.ben)
      #expect(try await world.due() == 0)
      #expect(world.simulator.calls.serverAPI.byEndpoint["app_account_token"] == nil)
    }
    try await Self.run(policy: "hint") { world in
      let bought = try world.simulator.issueTransaction(.subscriber)
      _ = try await world.service.validate(bought.signedTransaction, user: Self.anna)
      #expect(try await world.due() == 0)
    }
  }

  @Test func `while Apple is away the user waits, and is told when it is back`() async throws {
    try await Self.run(withSecret: true) { world in
      world.simulator.setTrouble(.http500, service: .serverAPI)
      let receipt = try world.simulator.issueReceipt(.renewing)
      let id = try #require(receipt.originalTransactionIDs.first)
      #expect(try await world.service.validate(receipt.receiptData, user: Self.anna).status == 200)
      try await eventually { world.simulator.calls.serverAPI.byEndpoint["app_account_token"] ?? 0 > 0 }
      #expect(try await world.due() == 1)
      #expect(world.simulator.calls.accountTokens.isEmpty)
      world.simulator.setTrouble(nil)
      // The circuit breaker rests by the machine's clock, and the task by the service's.
      try await eventually(looks: 4_000) {
        world.pass(1)
        return world.simulator.calls.accountTokens[id] == [Self.anna]
      }
      try await eventually { try await world.due() == 0 }
    }
  }

  @Test func `a token that Apple refuses for good is told in the log, and given up`() async throws {
    try await Self.run(withSecret: true) { world in
      world.simulator.setTrouble(.pingPong, service: .serverAPI)
      let receipt = try world.simulator.issueReceipt(.renewing)
      #expect(try await world.service.validate(receipt.receiptData, user: Self.anna).status == 200)
      try await eventually { world.service.log.text.contains("Apple refuses the user of a purchase") }
      try await eventually { try await world.due() == 0 }
      let metrics = try await world.service.send(.get, "/metrics", key: nil).text
      #expect(metrics.contains(#"countersign_account_tokens_total{outcome="refused"} 1"#))
    }
  }

  @Test func `a purchase that support moves names its new user`() async throws {
    try await Self.run { world in
      let bought = try world.simulator.issueTransaction(.subscriber)
      _ = try await world.service.validate(bought.signedTransaction, user: Self.anna)
      try await eventually { world.told(bought) == [Self.anna] }
      world.pass(60)
      let moved = try await world.service.send(
        .post, "/v1/transactions/\(bought.originalTransactionID)/transfer", key: RunningService.supportKey,
        body: #"{"to":"\#(Self.ben)","note":"sold the phone","create":true}"#)
      #expect(moved.status == 200)
      try await eventually { world.told(bought) == [Self.anna, Self.ben] }
      world.pass(60)
      let newest = try world.simulator.newestTransaction(ofOriginal: bought.originalTransactionID)
      #expect(try await world.service.validate(newest.signedTransaction, user: Self.anna).status == 409)
      #expect(try await world.service.validate(newest.signedTransaction, user: Self.ben).status == 200)
    }
  }
}

extension World {
  fileprivate func told(_ transaction: IssuedTransaction) -> [String] {
    simulator.calls.accountTokens[transaction.originalTransactionID] ?? []
  }

  fileprivate func due() async throws -> Int { try await service.gauge("countersign_account_tokens_due") }
}
