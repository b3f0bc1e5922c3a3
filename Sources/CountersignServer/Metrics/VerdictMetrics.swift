package import CoreMetrics
package import Entitlements

/// Counts verdicts.
package final class VerdictMetrics: Sendable {
  private struct Verdict: Hashable {
    var tier: Tier
    var status: SubscriptionStatus
    var reason: EntitlementReason
  }

  private let verdicts: Handles<Verdict, Counter>

  package init(_ factory: any MetricsFactory) {
    verdicts = Handles {
      Counter(
        .verdicts, [("tier", $0.tier.rawValue), ("status", $0.status.rawValue), ("reason", $0.reason.rawValue)],
        in: factory)
    }
  }

  package func note(_ entitlement: Entitlement) {
    verdicts[Verdict(tier: entitlement.tier, status: entitlement.status, reason: entitlement.reason)].increment()
  }
}
