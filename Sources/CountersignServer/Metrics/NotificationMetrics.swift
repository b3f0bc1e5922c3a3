package import CoreMetrics
package import Validation

/// Counts notifications by outcome.
package final class NotificationMetrics: Sendable {
  private struct Notification: Hashable {
    var version: Int
    var outcome: NotificationReceiver.Outcome
  }

  private let notifications: Handles<Notification, Counter>

  package init(_ factory: any MetricsFactory) {
    notifications = Handles {
      Counter(.notifications, [("version", "\($0.version)"), ("outcome", $0.outcome.rawValue)], in: factory)
    }
  }

  package func note(_ version: Int, _ outcome: NotificationReceiver.Outcome) {
    notifications[Notification(version: version, outcome: outcome)].increment()
  }
}
