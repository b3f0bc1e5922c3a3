import Foundation
import HTTPTransport
import TestSupport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Entitlements

/// Apple's terms of a purchase beside its dates, from the signature to the page.
@Suite struct TermsTests {
  static let clock = Date(timeIntervalSince1970: 1_718_452_800.123_456_7)
  private static let id = "480000000010000"

  private func run(_ body: @Sendable (RunningService, SimulatedStore) async throws -> Void) async throws {
    try await RunningService.besideStore(at: Self.clock, withServerAPI: true, body: body)
  }

  private static func period(_ service: RunningService) async throws -> [String: Any] {
    try #require(try await service.history().periods.first)
  }

  @Test func `a commitment that was stopped is told in the verdict, the history and the export`() async throws {
    try await run { service, store in
      let signed = try store.simulator.issueTransaction(.commitmentStopped)
      let answer = try await service.validate(signed.signedTransaction)
      #expect(answer.verdict == "pro active renewal_off", "\(answer.text)")
      #expect(answer["access_until"] == "2024-07-01T12:00:00Z" && answer["will_renew"] == "true")
      #expect(answer["commitment_expires_at"] == "2025-05-01T12:00:00Z")
      let events = try await service.send(.get, "/v1/events", key: RunningService.serviceKey).text
      #expect(events.contains("subscription.renewal_off"))
      #expect(events.contains(#""commitment_expires_at":"2025-05-01T12:00:00Z""#))

      let period = try await Self.period(service)
      let terms = try #require(period["terms"] as? [String: Any])
      #expect(
        terms as NSDictionary == [
          "transaction_reason": "RENEWAL", "price": "4.165", "currency": "USD", "storefront": "USA",
          "app_transaction_id": "700000000000000001", "billing_plan": "MONTHLY", "billing_period": 2,
          "billing_periods": 12, "commitment_expires_at": "2025-05-01T12:00:00Z", "commitment_price": "49.99",
        ], "\(terms)")
      let renewal = try #require(period["renewal"] as? [String: Any])
      #expect(
        renewal as NSDictionary == [
          "price": "4.165", "currency": "USD", "billing_plan": "MONTHLY", "commitment_renews": false,
          "commitment_expires_at": "2025-05-01T12:00:00Z", "commitment_billing_plan": "MONTHLY",
          "commitment_product_id": "com.example.app.pro.yearly", "commitment_price": "49.99",
        ], "\(renewal)")
      let export = try await service.send(.get, "/v1/profiles/user-1/export", key: RunningService.supportKey)
      let purchases = try #require((export.object["purchases"] as? [[String: Any]]))
      #expect(purchases.first?["renewal"] as? NSDictionary == renewal as NSDictionary)
      #expect(
        (purchases.first?["transactions"] as? [[String: Any]])?.last?["terms"] as? NSDictionary
          == terms as NSDictionary)

      // The last payment is made, and nothing renews.
      store.simulator.advanceClock(by: .seconds(300 * 86_400))
      let last = try await service.validate(originalTransactionID: Self.id, user: "user-1")
      #expect(last.verdict == "pro cancelled renewal_off")
      #expect(last["access_until"] == "2025-05-01T12:00:00Z" && last["will_renew"] == "false")
      store.simulator.advanceClock(by: .seconds(30 * 86_400))
      let over = try await service.validate(originalTransactionID: Self.id, user: "user-1")
      #expect(over.verdict == "free expired voluntary" && over["commitment_expires_at"] == "null")
    }
  }

  @Test func `a prorated refund says so in the history and in its event`() async throws {
    try await RunningService.besideStore(at: Self.clock, withServerAPI: false) { service, store in
      let signed = try store.simulator.issueTransaction(.refundedProrated, age: .seconds(3 * 86_400))
      #expect(try await service.validate(signed.signedTransaction).verdict == "premium active renewing")
      for one in try store.simulator.notifications(of: Self.id, to: Self.clock) where one.type == "REFUND" {
        #expect(try await service.notify(one)["outcome"] == "recorded")
      }
      let terms = try await Self.period(service)["terms"] as? [String: Any]
      #expect(terms?["revocation_type"] as? String == "REFUND_PRORATED")
      #expect(terms?["revocation_percentage"] as? Int == 45_000)
      let newest = try await service.send(
        .get, "/v1/events/newest?types=subscription.refunded", key: RunningService.serviceKey
      ).text
      #expect(newest.contains(#""revocation_type":"REFUND_PRORATED""#), "\(newest)")
    }
  }

  @Test(arguments: [true, false])
  func `a migrated subscription is one purchase, with its owner`(isPosted: Bool) async throws {
    try await RunningService.besideStore(at: Self.clock, withServerAPI: false) { service, store in
      let old = try store.simulator.issueTransaction(.migrated, age: .seconds(10 * 86_400))
      #expect(old.originalTransactionID == Self.id)
      #expect(try await service.validate(old.signedTransaction).verdict == "pro active renewing")
      let new = "480000000011000"
      if isPosted {
        let moved = try store.simulator.newestTransaction(ofOriginal: new)
        #expect(try await service.validate(moved.signedTransaction, user: "thief").status == 409)
        #expect(try await service.validate(moved.signedTransaction)["original_transaction_id"] == new)
      } else {
        for one in try store.simulator.notifications(of: new, to: Self.clock) where one.type == "MIGRATION" {
          #expect(try await service.notify(one)["outcome"] == "recorded")
        }
      }
      // The signature of before the move proves no second purchase.
      #expect(try await service.validate(old.signedTransaction, user: "thief").status == 409)
      #expect(try await service.validate(old.signedTransaction)["original_transaction_id"] == new)
      let history = try await service.send(.get, "/v1/profiles/user-1/history", key: RunningService.supportKey)
      let periods = try #require(history.object["periods"] as? [[String: Any]])
      #expect(Set(periods.compactMap { $0["original_transaction_id"] as? String }) == [new])
      let terms = periods.compactMap { $0["terms"] as? [String: Any] }
      #expect(terms.compactMap { $0["previous_original_transaction_id"] as? String } == [Self.id])
      #expect(
        terms.compactMap { ($0["items"] as? [[String: Any]])?.first?["sku"] as? String } == ["pro.monthly"])
      // Whoever knows the former ID finds it.
      let found = try await service.send(
        .get, "/v1/lookup/\(Self.id)", key: RunningService.supportKey)
      #expect(found.text.contains(#""user_id":"user-1""#), "\(found.text)")
    }
  }
}
