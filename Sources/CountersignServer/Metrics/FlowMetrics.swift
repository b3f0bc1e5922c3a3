import Access
package import AppStore
package import CoreMetrics
package import Entitlements
import HTTPTransport
package import Ledger
package import Profiles
package import Validation

/// Counts and times the calls to Apple.
package final class AppStoreMetrics: Sendable {
  private struct Endpoint: Hashable {
    var name: String
    var environment: StoreEnvironment
    var labels: [(String, String)] { [("endpoint", name), ("environment", environment.rawValue)] }
  }

  private struct Call: Hashable {
    var endpoint: Endpoint
    var status: String
  }

  private let calls: Handles<Call, Counter>
  private let durations: Handles<Endpoint, Timer>

  package init(_ factory: any MetricsFactory) {
    calls = Handles { Counter(.appStoreRequests, $0.endpoint.labels + [("status", $0.status)], in: factory) }
    durations = Handles { Timer(.appStoreRequestDuration, $0.labels, in: factory) }
  }

  package func note(_ attempt: VerifyReceiptAttempt) {
    note(
      Endpoint(name: "verify_receipt", environment: attempt.environment), attempt.outcome.label, attempt.duration)
  }

  package func note(_ attempt: ServerAPIAttempt) {
    note(
      Endpoint(name: attempt.endpoint.metricName, environment: attempt.environment), attempt.outcome.label,
      attempt.duration)
  }

  private func note(_ endpoint: Endpoint, _ status: String, _ duration: Duration) {
    calls[Call(endpoint: endpoint, status: status)].increment()
    durations[endpoint].record(duration)
  }
}

extension ServerAPIEndpoint {
  fileprivate var metricName: String {
    switch self {
    case .statuses: "subscription_statuses"
    case .transaction: "transaction_info"
    case .history: "transaction_history"
    case .order: "order_lookup"
    }
  }
}

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

/// Counts events of RevenueCat's by outcome.
package final class RevenueCatMetrics: Sendable {
  private let events: Handles<RevenueCatReceiver.Outcome, Counter>

  package init(_ factory: any MetricsFactory) {
    events = Handles { Counter(.revenueCatEvents, [("outcome", $0.rawValue)], in: factory) }
    // An alert goes by the increase, and a series that begins with the first event does not increase by it.
    for outcome in RevenueCatReceiver.Outcome.allCases { _ = events[outcome] }
  }

  package func note(_ outcome: RevenueCatReceiver.Outcome) { events[outcome].increment() }
}

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

/// How a call to Apple ended, as a label: one of some thirty words, whatever Apple answers.
extension VerifyReceiptAttempt.Outcome {
  var label: String {
    switch self {
    case .status(let status) where status == 0 || (21000...21010).contains(status): "\(status)"
    case .status(let status) where (21100...21199).contains(status): "21100-21199"
    case .status: "unknown"
    case .http(let status): httpLabel(status)
    case .malformed: "malformed"
    case .transport(let error): error.label
    }
  }
}

extension ServerAPIAttempt.Outcome {
  /// The documented codes that our calls can meet; all others share one label.
  private static let codes: Set<Int> = [
    4_000_006, 4_000_008, 4_040_001, 4_040_002, 4_040_003, 4_040_004, 4_040_005, 4_040_006, 4_040_010, 4_290_000,
    5_000_000, 5_000_001,
  ]

  var label: String {
    switch self {
    case .answered: "200"
    case .error(_, let code): Self.codes.contains(code) ? "\(code)" : "unknown"
    case .http(let status): httpLabel(status)
    case .malformed, .refused: "malformed"
    case .transport(let error): error.label
    }
  }
}

private func httpLabel(_ status: Int) -> String {
  status == 429 ? "http_429" : "http_\(min(max(status / 100, 1), 9))xx"
}

extension TransportError {
  fileprivate var label: String {
    switch self {
    case .resolve: "resolve"
    case .connect: "connect"
    case .tls: "tls"
    case .timedOut: "timed_out"
    case .tooLarge: "too_large"
    case .reset: "reset"
    case .protocolViolation: "protocol"
    case .overloaded: "overloaded"
    case .cancelled: "cancelled"
    case .shutDown, .invalidRequest, .other: "other"
    }
  }
}

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

/// A profile store whose writes are counted and timed.
package struct MeteredProfileStore: ProfileStore {
  private enum Outcome: String, CaseIterable {
    case applied
    case superseded
    case missing
    case refused
    case misconfigured
    case unavailable
    /// The breaker was open.
    case notSent = "not_sent"

    init(_ outcome: ProfileWriteOutcome) {
      self =
        switch outcome {
        case .applied: .applied
        case .superseded: .superseded
        case .noSuchProfile, .impossibleUserID: .missing
        case .refused: .refused
        case .misconfigured: .misconfigured
        case .unavailable(let trouble, _): trouble.code == GuardedProfileStore.refusal ? .notSent : .unavailable
        }
    }
  }

  private let store: any ProfileStore
  private let outcomes: Handles<Outcome, Counter>
  private let duration: Timer

  package init(_ store: any ProfileStore, _ factory: any MetricsFactory) {
    self.store = store
    outcomes = Handles { Counter(.profileWrites, [("outcome", $0.rawValue)], in: factory) }
    duration = Timer(.profileWriteDuration, in: factory)
  }

  package var refusesOlder: Bool { store.refusesOlder }

  package func apply(_ update: ProfileUpdate, deadline: ContinuousClock.Instant) async -> ProfileWriteOutcome {
    let start = ContinuousClock.now
    let result = await store.apply(update, deadline: deadline)
    let outcome = Outcome(result)
    outcomes[outcome].increment()
    if outcome != .notSent { duration.record(start.duration(to: .now)) }
    return result
  }

  package func check(deadline: ContinuousClock.Instant) async -> ProfileStoreCheck {
    await store.check(deadline: deadline)
  }
}
