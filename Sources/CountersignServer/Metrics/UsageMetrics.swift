import Access
import Entitlements
package import CoreMetrics

/// Counts consumptions by outcome. A key that is used again counts again.
package final class UsageMetrics: Sendable {
  enum Outcome: String {
    case consumed
    case refused
    case returned
  }

  private struct Usage: Hashable {
    var feature: FeatureName
    var outcome: Outcome
  }

  private let usages: Handles<Usage, Counter>

  package init(_ factory: any MetricsFactory) {
    usages = Handles {
      Counter(.usage, [("feature", $0.feature.rawValue), ("outcome", $0.outcome.rawValue)], in: factory)
    }
  }

  func note(_ feature: FeatureName, _ outcome: Outcome) {
    usages[Usage(feature: feature, outcome: outcome)].increment()
  }
}
