import Entitlements
import Foundation
import Ledger
import Testing

@testable import Validation

/// The questions about RevenueCat's events after they were received.
@Suite struct RevenueCatFollowerTests {
  private static let key = SubscriptionKey(environment: .production, originalTransactionID: "9000")

  private static func recordHint(_ use: UseCase) async throws {
    var event = StoreEvent(id: "1", at: UseCase.start, change: .period, user: "anna")
    event.product = "com.example.app.pro.monthly"
    event.transaction = "9000"
    event.purchasedAt = UseCase.start
    event.expiresAt = UseCase.start.advanced(by: 1_000)
    let outcome = try await use.ledger.run(
      RevenueCatReport(
        id: "1", type: "RENEWAL", store: "app_store", environment: .production, at: UseCase.start, payload: "{}",
        content: .hint(key, event), evaluationContext: use.validator.verdicts.evaluationContext, provisional: .zero))
    guard case .hint = outcome else {
      Issue.record("\(outcome)")
      return
    }
  }

  @Test func `one of two replicas asks about a hint, and the other takes over when it leaves`() async throws {
    try await UseCase.run(isShared: true) { use in
      try await Self.recordHint(use)
      let brake = try await DowngradeBrakeService.restored(from: use.ledger, share: 0.5) { UseCase.start }
      let follower = RevenueCatFollower(
        check: SubscriptionCheck(validator: use.validator, ledger: use.ledger, brake: brake), ledger: use.ledger,
        logger: UseCase.logger, now: { UseCase.start }, pacer: Pacer(rate: 1_000), pause: .zero,
        lease: JobLease(ledger: use.ledger, name: "$revenuecat"))
      let other = JobLease(ledger: use.ledger, name: "$revenuecat")
      #expect(await other.take(at: UseCase.start))
      #expect(await follower.sweep() == 0)
      #expect(try await use.ledger.dueReports(at: UseCase.start, limit: 5).count == 1)
      await other.release()
      #expect(await follower.sweep() == 1)
      #expect(try await use.ledger.dueReports(at: UseCase.start, limit: 5).isEmpty)
      // While there is nothing to do, nobody has to be the one.
      #expect(await !other.take(at: UseCase.start))
      #expect(await follower.sweep() == 0)
      await follower.lease.release()
      #expect(await follower.sweep() == 0)
      #expect(await other.take(at: UseCase.start))
    }
  }

  @Test func `a job is another replica's some time after its holder was seen for the last time`() async throws {
    try await UseCase.run(isShared: true) { use in
      let (one, other) = (JobLease(ledger: use.ledger, name: "$job"), JobLease(ledger: use.ledger, name: "$job"))
      #expect(await one.take(at: UseCase.start))
      #expect(await one.take(at: UseCase.start.advanced(by: 30)))
      #expect(await !other.take(at: UseCase.start.advanced(by: 100)))
      #expect(await other.take(at: UseCase.start.advanced(by: 101)))
      #expect(await !one.take(at: UseCase.start.advanced(by: 102)))
    }
  }
}
