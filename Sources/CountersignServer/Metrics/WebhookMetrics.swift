package import CoreMetrics
package import Validation

/// Counts and times attempts to deliver events to receivers.
package final class WebhookMetrics: Sendable {
  private struct Key: Hashable {
    var webhook: String
    var attempt: WebhookDeliverer.Attempt
  }

  private let attempts: Handles<Key, Counter>
  private let durations: Handles<String, Timer>

  package init(_ factory: any MetricsFactory) {
    attempts = Handles {
      Counter(.webhookAttempts, [("webhook", $0.webhook), ("outcome", $0.attempt.rawValue)], in: factory)
    }
    durations = Handles { Timer(.webhookAttemptDuration, [("webhook", $0)], in: factory) }
  }

  package func note(_ webhook: String, _ attempt: WebhookDeliverer.Attempt, _ duration: Duration) {
    attempts[Key(webhook: webhook, attempt: attempt)].increment()
    durations[webhook].record(duration)
  }
}
