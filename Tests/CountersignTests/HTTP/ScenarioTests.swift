import Foundation
import HTTPTransport
import Testing

@testable import AppStoreSimulator
@testable import Countersign
@testable import Entitlements

/// The main job over real TLS, scenario by scenario.
@Suite struct ScenarioTests {
  struct Case: Sendable, CustomTestStringConvertible {
    var scenario: Scenario
    var status = 200
    var verdict: String
    /// `nil`: null.
    var accessUntil: String?
    var testDescription: String { scenario.rawValue }
  }

  static let cases: [Case] = [
    Case(scenario: .subscriber, verdict: "pro active renewing", accessUntil: "2024-07-15T12:00:00Z"),
    Case(scenario: .trial, verdict: "pro active renewing", accessUntil: "2024-06-20T12:00:00Z"),
    Case(scenario: .renewing, verdict: "pro active renewing", accessUntil: "2024-07-01T12:00:00Z"),
    Case(scenario: .lateRenewal, verdict: "pro active renewal_due", accessUntil: "2024-06-16T11:59:59Z"),
    Case(scenario: .renewalOff, verdict: "pro cancelled renewal_off", accessUntil: "2024-06-30T12:00:00Z"),
    Case(scenario: .grace, verdict: "pro grace_period billing_grace", accessUntil: "2024-06-28T12:00:00Z"),
    // verifyReceipt tells neither the status nor that there was a grace period.
    Case(scenario: .graceWithoutDate, verdict: "free expired billing_error"),
    Case(scenario: .graceEnded, verdict: "pro grace_period billing_retry", accessUntil: "2024-07-25T12:00:00Z"),
    Case(scenario: .billingRetry, verdict: "pro grace_period billing_retry", accessUntil: "2024-08-11T12:00:00Z"),
    Case(scenario: .expiredVoluntary, verdict: "free expired voluntary"),
    Case(scenario: .voluntaryRetrying, verdict: "free expired voluntary"),
    Case(scenario: .expiredBillingError, verdict: "free expired billing_error"),
    Case(scenario: .expiredPriceIncrease, verdict: "free expired price_increase"),
    Case(scenario: .expiredProductUnavailable, verdict: "free expired product_unavailable"),
    Case(scenario: .expiredUnknown, verdict: "free expired unknown"),
    Case(scenario: .refunded, verdict: "free expired refunded"),
    Case(scenario: .refundedProrated, verdict: "free expired refunded"),
    Case(scenario: .refundedThenRebought, verdict: "premium active renewing", accessUntil: "2024-07-10T12:00:00Z"),
    Case(scenario: .upgraded, verdict: "premium active renewing", accessUntil: "2024-07-10T12:00:00Z"),
    Case(scenario: .upgradeRefunded, verdict: "free expired refunded"),
    Case(scenario: .downgradePending, verdict: "premium active renewing", accessUntil: "2024-06-30T12:00:00Z"),
    Case(scenario: .crossgraded, verdict: "pro active renewing", accessUntil: "2024-06-30T12:00:00Z"),
    // verifyReceipt tells nothing of a commitment.
    Case(scenario: .commitment, verdict: "pro active renewing", accessUntil: "2024-07-01T12:00:00Z"),
    Case(scenario: .commitmentStopped, verdict: "pro active renewing", accessUntil: "2024-07-01T12:00:00Z"),
    Case(scenario: .migrated, verdict: "pro active renewing", accessUntil: "2024-07-01T12:00:00Z"),
    Case(scenario: .familyShared, verdict: "premium active renewing", accessUntil: "2024-07-05T12:00:00Z"),
    Case(scenario: .familyRevoked, verdict: "free expired revoked"),
    Case(scenario: .lifetime, verdict: "premium active lifetime"),
    Case(scenario: .lifetimeRefunded, verdict: "free expired refunded"),
    Case(scenario: .nonRenewing, verdict: "pro active non_renewing", accessUntil: "2024-07-05T12:00:00Z"),
    Case(scenario: .empty, verdict: "free active no_purchases"),
    Case(scenario: .unknownProduct, verdict: "free active no_known_product"),
    Case(scenario: .wrongApp, status: 422, verdict: "- 422 -"),
    Case(scenario: .twoGroups, verdict: "premium active renewing", accessUntil: "2024-07-10T12:00:00Z"),
    Case(scenario: .accountGone, verdict: "free expired account_gone"),
    Case(scenario: .eventfulYear, verdict: "pro active renewing", accessUntil: "2024-06-22T12:00:00Z"),
  ]

  @Test func `every scenario gets the verdict of the decision table`() async throws {
    #expect(Set(Self.cases.map(\.scenario)) == Set(Scenario.allCases))
    try await RunningService.besideStore { service, store in
      for (number, expected) in Self.cases.enumerated() {
        for environment in [AppStoreSimulator.StoreEnvironment.production, .sandbox] {
          let user = "user-\(number)-\(environment.rawValue)"
          let receipt = try store.simulator.issueReceipt(
            expected.scenario, environment: environment, subscriber: Int64(number + 1))
          let answer = try await service.validate(receipt.receiptData, user: user)
          let name = Comment(rawValue: "\(expected.scenario.rawValue) in \(environment.rawValue): \(answer.text)")
          #expect(answer.status == expected.status, name)
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
