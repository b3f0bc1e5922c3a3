package import CoreMetrics
package import Validation

/// Counts events of RevenueCat's by outcome.
package final class RevenueCatMetrics: Sendable {
  private let events: Handles<RevenueCatReceiver.Outcome, Counter>

  package init(_ factory: any MetricsFactory) {
    events = Handles { Counter(.revenueCatEvents, [("outcome", $0.rawValue)], in: factory) }
    // Those that alerts go by, and the others with them: see `LabelledCounter`.
    for outcome in RevenueCatReceiver.Outcome.allCases { _ = events[outcome] }
  }

  package func note(_ outcome: RevenueCatReceiver.Outcome) { events[outcome].increment() }
}
