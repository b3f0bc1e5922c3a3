package import CoreMetrics
package import Validation

/// Counts and times attempts to deliver events to receivers.
package final class WebhookMetrics: Sendable {
  private let attempts: LabelledCounter
  private let durations: Handles<String, Timer>

  package init(_ factory: any MetricsFactory) {
    attempts = LabelledCounter(.webhookAttempts, in: factory)
    durations = Handles { Timer(.webhookAttemptDuration, [("webhook", $0)], in: factory) }
  }

  package func note(_ webhook: String, _ attempt: WebhookDeliverer.Attempt, _ duration: Duration) {
    attempts.increment(webhook, attempt.rawValue)
    durations[webhook].record(duration)
  }
}
