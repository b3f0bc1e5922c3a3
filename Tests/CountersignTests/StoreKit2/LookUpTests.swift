import Foundation
import HTTPTransport
import Testing
import TestSupport

@testable import AppStoreSimulator
@testable import Entitlements

/// Original transaction IDs that the service has never seen.
@Suite struct LookUpTests {
  @Test(arguments: [AppStoreSimulator.StoreEnvironment.production, .sandbox])
  func `an ID that was never seen is looked up`(environment: AppStoreSimulator.StoreEnvironment) async throws {
    try await RunningService.besideStore(withServerAPI: true) { service, store in
      let customer = try store.simulator.issueTransaction(.grace, environment: environment)
      let answer = try await service.validate(originalTransactionID: customer.originalTransactionID)
      #expect(answer.status == 200)
      #expect(answer.verdict == "pro grace_period billing_grace")
      #expect(answer["environment"] == environment.rawValue)
      #expect(answer["source"] == "server_api")
      // From now on it is known, and its owner's.
      #expect(
        try await service.validate(originalTransactionID: customer.originalTransactionID, user: "user-2").status
          == 409)
      #expect(try await service.profile().verdict == "pro grace_period billing_grace")
    }
  }

  @Test func `a person who asks Apple again gets every payment, and the figures too, each once`() async throws {
    let clock = MovingClock(noon.addingTimeInterval(200 * 86_400))
    try await RunningService.besideStore(withServerAPI: true, now: { clock.date }) { service, store in
      let customer = try store.simulator.issueTransaction(.subscriber)
      store.simulator.setClock(clock.date)
      _ = try await service.validate(originalTransactionID: customer.originalTransactionID)
      let path = "/v1/profiles/user-1/revalidation"
      @Sendable func kept() async throws -> (periods: Int, payments: Int) {
        let figures = try await service.send(.get, "/v1/figures?from=2024-01-01&to=2024-12-31&interval=month")
        let payments = figures.array("periods").compactMap { $0["payments"] as? Int }.reduce(0, +)
        return (try await service.history().periods.count, figures.object["pending"] as? Int == 0 ? payments : -1)
      }
      try await eventually { try await kept() == (1, 1) }
      // A server asks about many.
      #expect(try await service.send(.post, path, body: "{}").status == 200)
      #expect(try await service.history().periods.count == 1)
      for _ in 0..<2 {
        let asked = try await service.send(
          .post, path, key: RunningService.supportKey, body: #"{"note":"What was paid?"}"#)
        #expect(asked.status == 200 && asked["tier"] == "pro", "\(asked.text)")
      }
      let all = try store.simulator.notifications(of: customer.originalTransactionID, to: clock.date)
        .count { ["SUBSCRIBED", "DID_RENEW"].contains($0.type) }
      #expect(all > 5)
      try await eventually { try await kept() == (all, all) }
    }
  }

  @Test func `an answer about an app of another number is refused`() async throws {
    let settings = Settings(appStore: ["app_apple_ids": "[7]"])
    try await RunningService.besideStore(withServerAPI: true, settings: settings) { service, store in
      let customer = try store.simulator.issueTransaction(.renewing)
      let answer = try await service.validate(originalTransactionID: customer.originalTransactionID)
      #expect(answer.status == 422 && answer["code"] == "wrong_app", "\(answer.text)")
      let sandbox = try store.simulator.issueTransaction(.renewing, environment: .sandbox)
      #expect(try await service.validate(originalTransactionID: sandbox.originalTransactionID).status == 200)
    }
  }

  @Test func `404 is Apple's word, from both stores`() async throws {
    try await RunningService.besideStore(withServerAPI: true) { service, store in
      let unknown = try await service.validate(originalTransactionID: "480000099990000")
      #expect(unknown.status == 404)
      #expect(unknown["code"] == "unknown_transaction")
      #expect(store.simulator.callsInAll >= 2)
      store.simulator.setTrouble(.http500)
      #expect(try await service.validate(originalTransactionID: "480000099990000").status == 503)
      store.simulator.setTrouble(.serverAPIKeyRejected)
      #expect(try await service.validate(originalTransactionID: "480000099990000").status == 503)
      store.simulator.setTrouble(.serverAPINotFoundRetryable)
      #expect(try await service.validate(originalTransactionID: "480000099990000").status == 503)
    }
  }

  @Test func `a purchase is not looked up without a key`() async throws {
    try await RunningService.besideStore { service, store in
      let customer = try store.simulator.issueTransaction(.renewing)
      let answer = try await service.validate(originalTransactionID: customer.originalTransactionID)
      #expect(answer.status == 404)
    }
  }

  @Test func `a user gets nothing by an ID alone, unless the app named them`() async throws {
    let own = UUID()
    let settings = Settings(jwt: ["secret": TokenMint.secret, "audience": "authenticated"])
    try await RunningService.besideStore(withServerAPI: true, settings: settings) { service, store in
      let token = try TokenMint.user(own.uuidString.lowercased(), at: noon)
      let somebodys = try store.simulator.issueTransaction(.renewing, subscriber: 1)
      let guessed = try await service.post(
        ["original_transaction_id": somebodys.originalTransactionID], key: token)
      #expect(guessed.status == 404)
      #expect(guessed["detail"]?.contains("post the receipt or the signed transaction") == true)
      #expect(try await service.profile("me", key: token).verdict == "free active no_purchases")
      // Whoever it belongs to can still present it.
      #expect(try await service.validate(somebodys.signedTransaction, user: "owner").status == 200)

      let mine = try store.simulator.issueTransaction(.renewing, subscriber: 2, appAccountToken: own)
      let named = try await service.post(["original_transaction_id": mine.originalTransactionID], key: token)
      #expect(named.status == 200)
      #expect(named.verdict == "pro active renewing")

      let others = try store.simulator.issueTransaction(.renewing, subscriber: 3, appAccountToken: UUID())
      #expect(
        try await service.post(["original_transaction_id": others.originalTransactionID], key: token).status == 404)
    }
  }

  @Test func `re-validation prefers the Server API, and falls back on the receipt where it knows nothing`() async throws
  {
    let clock = MovingClock()
    try await RunningService.besideStore(withServerAPI: true, now: { clock.date }) { service, store in
      let receipt = try store.simulator.issueReceipt(.subscriber)
      #expect(try await service.validate(receipt.receiptData)["source"] == "verify_receipt")
      store.simulator.resetCalls()
      store.simulator.advanceClock(by: .seconds(31 * 86_400))
      clock.advance(by: 31 * 86_400)
      try await eventually(clock) {
        try await service.profile()["source"] == "ledger" && store.simulator.callsInAll > 0
      }
      try await eventually(clock) { try await service.profile()["stale"] == "false" }
      #expect(try await service.profile().verdict == "pro active renewing")
      let history = try await service.send(.get, "/v1/profiles/user-1/history", key: RunningService.supportKey)
      #expect(history.text.contains("server_api"))

      store.simulator.advanceClock(by: .seconds(60))
      store.simulator.setTrouble(.serverAPIKeyRejected)
      let answer = try await service.send(.post, "/v1/profiles/user-1/revalidation", body: #"{"note":"why"}"#)
      #expect(answer.verdict == "pro active renewing")
      #expect(answer["stale"] == "false")
      #expect(answer["source"] == "verify_receipt")
    }
  }
}
