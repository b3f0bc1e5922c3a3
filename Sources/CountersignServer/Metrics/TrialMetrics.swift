import Access
import Entitlements
package import CoreMetrics

/// Counts requests to begin a trial by outcome.
package final class TrialMetrics: Sendable {
  enum Outcome: String {
    case started
    /// The user's own, again.
    case known
    case refused
    /// The user has as much without it.
    case notNeeded = "not_needed"
  }

  private struct Start: Hashable {
    var trial: String
    var outcome: Outcome
  }

  private let starts: Handles<Start, Counter>

  package init(_ factory: any MetricsFactory) {
    starts = Handles { Counter(.trials, [("trial", $0.trial), ("outcome", $0.outcome.rawValue)], in: factory) }
  }

  func note(_ trial: String, _ outcome: Outcome) { starts[Start(trial: trial, outcome: outcome)].increment() }
}
