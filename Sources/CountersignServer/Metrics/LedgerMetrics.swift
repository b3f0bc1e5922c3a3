package import CoreMetrics
package import Ledger
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

/// Records the size and duration of each commit, and counts what retention removes.
package final class LedgerMetrics: Sendable {
  private let writes: Recorder
  private let duration: Timer
  private let removed: Counter

  package init(_ factory: any MetricsFactory) {
    writes = Recorder(label: ServiceMetric.ledgerCommitWrites.rawValue, factory: factory)
    duration = Timer(.ledgerCommitDuration, in: factory)
    removed = Counter(.historyRemoved, in: factory)
  }

  package func note(_ commit: Ledger.Commit) {
    writes.record(commit.writes)
    duration.record(commit.duration)
  }

  /// Counts lines of the history that retention removed.
  package func noteRemoved(_ lines: Int) { removed.increment(by: lines) }
}
