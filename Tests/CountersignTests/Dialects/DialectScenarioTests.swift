import Entitlements
import Foundation
import HTTPTransport
import Testing
import TestSupport

@testable import AppStoreSimulator
@testable import Countersign

/// Every story of the simulated App Store through each dialect: what its client shows is the tier that the native route
/// tells. RevenueCat's own is in `RevenueCatScenarioTests`.
@Suite struct DialectScenarioTests {
  private static let tiers = ["free", "pro", "premium"]
  /// Moments at which stories turn: within the period, after its end, after grace, after a year.
  private static let days = [0, 1, 20, 40, 400]

  private func run(
    _ body: @Sendable (RunningService, SimulatedStore, _ user: String, MovingClock) async throws -> Void
  ) async throws {
    var settings = DialectBench.settings(server: ["user_rate_limit": "0"])
    settings.dialects.append("subscriptions_api")
    try await World.run(withServerAPI: true, settings: settings) {
      try await body($0.service, $0.store, DialectBench.user, $0.clock)
    }
  }

  /// The best tier of these products.
  private func tier(of products: some Sequence<String>) -> String {
    let owned = products.compactMap { product in
      Settings().products[product].flatMap { terms in Self.tiers.lastIndex { terms.contains("tier: \($0)") } }
    }
    return Self.tiers[owned.max() ?? 0]
  }

  /// Calls `ask` at each moment, with a token that is valid then.
  private func pass(
    _ clock: MovingClock, _ store: SimulatedStore, _ ask: (_ token: String) async throws -> Void
  ) async throws {
    for days in Self.days {
      clock.advance(by: (noon + TimeInterval(days) * 86_400).timeIntervalSince(clock.date))
      store.simulator.setClock(clock.date)
      try await ask(try TokenMint.user(DialectBench.user, at: clock.date))
    }
  }

  @Test(arguments: Scenario.allCases) func `cordova shows our tier`(scenario: Scenario) async throws {
    try await run { service, store, user, clock in
      let receipt = try store.simulator.issueReceipt(scenario).receiptData
      try await pass(clock, store) { token in
        let answer = try await service.cordova(try DialectBench.cordova(receipt: receipt), key: token)
        guard scenario != .wrongApp else { return #expect(answer.status == 200 && answer["code"] == "6777017") }
        #expect(answer.status == 200 && answer["ok"] == "true", "\(answer.text)")
        let running = answer.collection.filter { $0["isExpired"] as? Bool == false }
        let ends = running.compactMap { $0["expiryDate"] as? NSNumber }.map(\.doubleValue)
        #expect(ends.allSatisfy { $0 > clock.date.timeIntervalSince1970 * 1000 })
        #expect(try await service.profile(user)["tier"] == tier(of: running.compactMap { $0["id"] as? String }))
      }
    }
  }

  @Test(arguments: Scenario.allCases) func `OpenIAP shows our tier`(scenario: Scenario) async throws {
    try await run { service, store, user, clock in
      // A receipt without a purchase has no transaction.
      guard let issued = try? store.simulator.issueTransaction(scenario) else { return }
      try await pass(clock, store) { token in
        let answer = try await service.openIAP(try DialectBench.openIAP(issued.signedTransaction), key: token)
        #expect(answer.status == 200, "\(answer.text)")
        let own = try await service.profile(user)
        let isValid = answer["isValid"] == "true"
        let shown = isValid ? tier(of: [answer["productId"] ?? ""]) : "free"
        let known = Settings().products[answer["productId"] ?? ""] != nil
        if own["original_transaction_id"] == issued.originalTransactionID {
          #expect(shown == own["tier"], "\(answer.text) \(own.text)")
        } else {
          // The answer is about one purchase; the tier may be another one's.
          let ranks = [shown, own["tier"] ?? ""].map { Self.tiers.firstIndex(of: $0) ?? -1 }
          #expect(!known || ranks[0] <= ranks[1], "\(answer.text) \(own.text)")
        }
      }
    }
  }

  @Test(arguments: Scenario.allCases) func `an app with a backend of its own shows our tier`(scenario: Scenario)
    async throws
  {
    try await run { service, store, user, clock in
      let receipt = try store.simulator.issueReceipt(scenario).receiptData
      try await pass(clock, store) { token in
        let answer = try await service.send(
          .post, "/api/subscriptions/verify", key: token, body: #"{"receipt_data":"\#(receipt)"}"#)
        guard scenario != .wrongApp else { return #expect(answer.status == 422 && answer["success"] == "false") }
        #expect(answer.status == 200, "\(answer.text)")
        let current = try await service.send(.get, "/api/subscriptions/current", key: token)
        let own = try await service.profile(user)
        for answer in [answer, current] {
          #expect((answer.object["plan"] as? [String: Any])?["code"] as? String == own["tier"])
          #expect(answer["isTrialing"] == (own["status"] == "expired" ? "false" : own["is_trial"]))
          let subscription = answer.object["subscription"] as? [String: Any]
          #expect(
            (subscription?["status"] as? String == "expired") == (subscription != nil && own["status"] == "expired"))
        }
      }
    }
  }

  /// As old code reads Apple's answer: a row counts until its end, in grace and in billing retry, unless it is refunded or
  /// the customer ended it. What it does not know: that a grace period was granted before, that a renewal may be a day
  /// late, and how long a season is.
  @Test(arguments: Scenario.allCases) func `old code that asks Apple shows our tier`(scenario: Scenario) async throws {
    try await run { service, store, user, clock in
      let receipt = try store.simulator.issueReceipt(scenario).receiptData
      try await pass(clock, store) { token in
        let answer = try await service.verifyReceipt(try DialectBench.verifyReceipt(receipt))
        guard scenario != .wrongApp else { return #expect(answer["status"] == "21003") }
        let native = try await service.send(
          .post, "/v1/validations", key: token, body: #"{"receipt_data":"\#(receipt)"}"#)
        #expect(native.status == 200, "\(native.text)")
        let now = clock.date.timeIntervalSince1970 * 1000
        func moment(_ row: [String: Any], _ name: String) -> Double? { (row[name] as? String).flatMap(Double.init) }
        func isSame(_ one: [String: Any], _ other: [String: Any], _ name: String) -> Bool {
          one[name] as? String == other[name] as? String
        }
        let latest = answer.object["latest_receipt_info"] as? [[String: Any]] ?? []
        let inApp = (answer.object["receipt"] as? [String: Any])?["in_app"] as? [[String: Any]] ?? []
        let renewals = answer.object["pending_renewal_info"] as? [[String: Any]] ?? []
        let running = (latest + inApp).filter { row in
          guard row["cancellation_date_ms"] == nil, row["is_upgraded"] as? String != "true" else { return false }
          guard let end = moment(row, "expires_date_ms") else {
            guard scenario == .nonRenewing, let bought = moment(row, "purchase_date_ms") else { return true }
            let start = Date(timeIntervalSince1970: bought / 1000)
            return Entitlements.BillingPeriod(count: 1, unit: .month).end(from: start) > clock.date
          }
          guard let renewal = renewals.first(where: { isSame($0, row, "original_transaction_id") }) else {
            return now < end
          }
          let late = scenario == .lateRenewal ? 86_400_000.0 : 0
          return now < max(end + late, moment(renewal, "grace_period_expires_date_ms") ?? end)
            || scenario != .grace && renewal["expiration_intent"] as? String != "1"
              && renewal["is_in_billing_retry_period"] as? String == "1"
        }
        #expect(
          native["tier"] == tier(of: running.compactMap { $0["product_id"] as? String }),
          "\(native.text)\n\(answer.text)")
      }
    }
  }
}
