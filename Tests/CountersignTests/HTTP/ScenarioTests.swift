import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Entitlements

/// The main job over real TLS, scenario by scenario.
@Suite struct ScenarioTests {
  /// A `nil` is told as null.
  private static let cases: [(scenario: Scenario, verdict: String, accessUntil: String?)] = [
    (.subscriber, "pro active renewing", "2024-07-15T12:00:00Z"),
    (.trial, "pro active renewing", "2024-06-20T12:00:00Z"),
    (.renewing, "pro active renewing", "2024-07-01T12:00:00Z"),
    (.lateRenewal, "pro active renewal_due", "2024-06-16T11:59:59Z"),
    (.renewalOff, "pro cancelled renewal_off", "2024-06-30T12:00:00Z"),
    (.grace, "pro grace_period billing_grace", "2024-06-28T12:00:00Z"),
    // verifyReceipt tells neither the status nor that there was a grace period.
    (.graceWithoutDate, "free expired billing_error", nil),
    (.graceEnded, "pro grace_period billing_retry", "2024-07-25T12:00:00Z"),
    (.billingRetry, "pro grace_period billing_retry", "2024-08-11T12:00:00Z"),
    (.expiredVoluntary, "free expired voluntary", nil),
    (.voluntaryRetrying, "free expired voluntary", nil),
    (.expiredBillingError, "free expired billing_error", nil),
    (.expiredPriceIncrease, "free expired price_increase", nil),
    (.expiredProductUnavailable, "free expired product_unavailable", nil),
    (.expiredUnknown, "free expired unknown", nil),
    (.refunded, "free expired refunded", nil),
    (.refundedProrated, "free expired refunded", nil),
    (.refundedThenRebought, "premium active renewing", "2024-07-10T12:00:00Z"),
    (.upgraded, "premium active renewing", "2024-07-10T12:00:00Z"),
    (.upgradeRefunded, "free expired refunded", nil),
    (.downgradePending, "premium active renewing", "2024-06-30T12:00:00Z"),
    (.crossgraded, "pro active renewing", "2024-06-30T12:00:00Z"),
    // verifyReceipt tells nothing of a commitment.
    (.commitment, "pro active renewing", "2024-07-01T12:00:00Z"),
    (.commitmentStopped, "pro active renewing", "2024-07-01T12:00:00Z"),
    (.migrated, "pro active renewing", "2024-07-01T12:00:00Z"),
    (.familyShared, "premium active renewing", "2024-07-05T12:00:00Z"),
    (.familyRevoked, "free expired revoked", nil),
    (.lifetime, "premium active lifetime", nil),
    (.lifetimeRefunded, "free expired refunded", nil),
    (.nonRenewing, "pro active non_renewing", "2024-07-05T12:00:00Z"),
    (.empty, "free active no_purchases", nil),
    (.unknownProduct, "free active no_known_product", nil),
    (.wrongApp, "- 422 -", nil),
    (.twoGroups, "premium active renewing", "2024-07-10T12:00:00Z"),
    (.accountGone, "free expired account_gone", nil),
    (.eventfulYear, "pro active renewing", "2024-06-22T12:00:00Z"),
  ]

  @Test func `every scenario gets the verdict of the decision table`() async throws {
    #expect(Set(Self.cases.map { $0.scenario }) == Set(Scenario.allCases))
    try await RunningService.besideStore { service, store in
      for (number, expected) in Self.cases.enumerated() {
        for environment in [AppStoreSimulator.StoreEnvironment.production, .sandbox] {
          let user = "user-\(number)-\(environment.rawValue)"
          let receipt = try store.simulator.issueReceipt(
            expected.scenario, environment: environment, subscriber: Int64(number + 1))
          let answer = try await service.validate(receipt.receiptData, user: user)
          let name = Comment(rawValue: "\(expected.scenario.rawValue) in \(environment.rawValue): \(answer.text)")
          #expect(answer.status == (expected.scenario == .wrongApp ? 422 : 200), name)
          #expect(answer.verdict == expected.verdict, name)
          if answer.status == 200 { #expect(answer["access_until"] == expected.accessUntil ?? "null", name) }
          if answer.status == 200, answer["original_transaction_id"] != "null" {
            #expect(answer["environment"] == environment.rawValue, name)
          }
        }
      }
    }
  }

  @Test func `the answer carries what an app needs`() async throws {
    try await RunningService.besideStore { service, store in
      let receipt = try store.simulator.issueReceipt(.trial, subscriber: 1)
      let answer = try await service.validate(receipt.receiptData)
      #expect(answer["user_id"] == "user-1")
      #expect(answer["product_id"] == "com.example.app.pro.monthly")
      #expect(answer["original_transaction_id"] == receipt.originalTransactionIDs.first)
      #expect(answer["environment"] == "production")
      #expect(answer["will_renew"] == "true")
      #expect(answer["is_trial"] == "true")
      #expect(answer["ownership"] == "purchased")
      #expect(answer["evidence_at"] == "2024-06-15T12:00:00Z")
      #expect(answer["source"] == "verify_receipt")
      #expect(answer["stale"] == "false")
      #expect(answer["provisional"] == "false")
      #expect(answer["profile_write"] == "none")
      let shared = try await service.validate(
        try store.simulator.issueReceipt(.familyShared, subscriber: 2).receiptData, user: "user-2")
      #expect(shared["ownership"] == "family_shared")
      let downgrade = try await service.validate(
        try store.simulator.issueReceipt(.downgradePending, subscriber: 3).receiptData, user: "user-3")
      #expect(downgrade["next_product_id"] == "com.example.app.pro.monthly")
    }
  }

  @Test func `an iOS 6-style receipt is validated too`() async throws {
    try await RunningService.besideStore { service, store in
      let running = try store.simulator.issueReceipt(.renewing, subscriber: 1, format: .ios6)
      #expect(try await service.validate(running.receiptData, user: "a").verdict == "pro active renewing")
      let ended = try store.simulator.issueReceipt(.expiredVoluntary, subscriber: 2, format: .ios6)
      #expect(try await service.validate(ended.receiptData, user: "b").verdict == "free expired voluntary")
    }
  }
}

/// A running simulator, and how the service reaches it.
struct SimulatedStore: Sendable {
  var simulator: RunningSimulator

  var apple: Apple {
    Apple(
      productionURL: simulator.productionURL, sandboxURL: simulator.sandboxURL, caFile: simulator.rootPEMPath,
      roots: [simulator.rootPEMPath], sharedSecret: Self.sharedSecret)
  }

  static let sharedSecret = "a-shared-secret"

  /// - Parameter certifiedSince: for a service whose own clock is behind.
  static func run<Result: Sendable>(
    at clock: Date = noon, certifiedSince: Date? = nil, body: @Sendable (SimulatedStore) async throws -> Result
  ) async throws -> Result {
    var configuration = Simulator.Configuration()
    configuration.clock = clock
    configuration.sharedSecret = sharedSecret
    configuration.certifiedSince = certifiedSince
    let simulator = try await Simulator.start(configuration)
    do {
      let result = try await body(SimulatedStore(simulator: simulator))
      await simulator.stop()
      return result
    } catch {
      await simulator.stop()
      throw error
    }
  }
}
