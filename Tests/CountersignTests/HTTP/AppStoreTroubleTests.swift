import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator

/// Nobody's tier is lowered by anything but a verdict, whatever Apple answers.
@Suite struct AppStoreTroubleTests {
  /// Each trouble, what a new purchase is told meanwhile, and how many calls one validation may cost Apple.
  /// 202: it is recorded, and nothing of it is believed yet.
  static let troubles: [(trouble: Trouble, status: Int, calls: ClosedRange<Int>)] =
    [
      (.status21000, 202, 1...1),
      (.status21001, 202, 1...1),
      (.status21002, 202, 2...3),
      (.status21003, 422, 2...2),
      (.status21004, 202, 1...1),
      (.status21005, 202, 2...3),
      (.status21009, 202, 2...3),
      (.status21100Retryable, 202, 2...3),
      (.status21100NotRetryable, 202, 1...1),
      (.status21199, 202, 2...3),
      (.statusUnheardOf, 202, 1...3),
      (.http500, 202, 2...3),
      (.http503, 202, 2...3),
      (.http429, 202, 1...3),
      (.html, 202, 2...3),
      (.emptyBody, 202, 2...3),
      (.notJSON, 202, 2...3),
      (.truncated, 202, 2...3),
      (.missingReceipt, 202, 1...3),
      (.duplicateKeys, 202, 1...3),
      (.trailingJunk, 202, 1...3),
      (.stall, 202, 1...1),
      (.slowDrip, 202, 1...1),
      (.reset, 202, 2...3),
      (.giant, 202, 1...3),
      (.endless, 202, 1...3),
      (.redirect, 202, 1...3),
      (.pingPong, 202, 2...2),
      (.badDate, 202, 1...3),
    ]

  @Test func `every trouble is tried`() {
    #expect(Set(Self.troubles.map(\.trouble)) == Set(Trouble.allCases.filter { $0.befalls(.verifyReceipt) }))
  }

  @Test(arguments: troubles)
  func `no trouble of Apple's lowers a tier, and none is taken for a verdict`(
    trouble: Trouble, status: Int, calls: ClosedRange<Int>
  ) async throws {
    let settings = Settings(appStore: ["deadline": "6s"])
    // Nothing is settled meanwhile: that would be counted among the calls.
    try await RunningService.besideStore(settings: settings, jobPause: .seconds(3600)) {
      service, store in
      // A refund is in it, so that the unreadable cancellation date has a place to be.
      let known = try store.simulator.issueReceipt(.refundedThenRebought, subscriber: 1)
      #expect(try await service.validate(known.receiptData, user: "known").verdict == "premium active renewing")
      store.simulator.setTrouble(trouble, count: nil, environment: nil)
      store.simulator.resetCalls()
      let fresh = try store.simulator.issueReceipt(.refundedThenRebought, subscriber: 2)
      let answer = try await service.validate(fresh.receiptData, user: "fresh")
      #expect(answer.status == status)
      if status == 422 {
        #expect(answer["code"] == "not_authentic")
        #expect(answer["apple_status"] == "21003")
      } else {
        #expect(answer.verdict == "free active no_purchases")
        #expect(answer["stale"] == "true")
      }
      #expect(calls.contains(store.simulator.calls.total))
      #expect(store.simulator.calls.redirectsFollowed == 0)
      #expect(try await service.profile("fresh").verdict == "free active no_purchases")

      let again = try await service.validate(known.receiptData, user: "known")
      if status == 202 {
        #expect(again.status == 200)
        #expect(again.verdict == "premium active renewing")
        #expect(again["stale"] == "true")
        #expect(again["source"] == "ledger")
      } else {
        #expect(again.status == 422)
      }
      #expect(try await service.profile("known").verdict == "premium active renewing")
    }
  }

  @Test func `a wrong shared secret is an alarm and shows in readiness, and changes nobody's tier`() async throws {
    try await SimulatedStore.run { store in
      var apple = store.apple
      apple.sharedSecret = "mistyped-secret"
      try await RunningService.run(apple: apple) { service in
        #expect(try await service.send(.get, "/readyz", key: nil).status == 200)
        let receipt = try store.simulator.issueReceipt(.renewing, subscriber: 1)
        let answer = try await service.validate(receipt.receiptData)
        #expect(answer.status == 202)
        let ready = try await service.send(.get, "/readyz", key: nil)
        #expect(ready.status == 503)
        #expect(ready["app_store"] == "shared_secret_rejected")
        #expect(try await service.send(.get, "/livez", key: nil).status == 200)
        #expect(service.log.lines.contains { $0.contains(#""level":"critical""#) && $0.contains("shared_secret") })
        #expect(!service.log.text.contains("mistyped-secret"))
      }
    }
  }
}
