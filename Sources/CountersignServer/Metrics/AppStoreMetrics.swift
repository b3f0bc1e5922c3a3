package import AppStore
package import CoreMetrics
import Entitlements
import HTTPTransport

/// Counts and times the calls to Apple.
package final class AppStoreMetrics: Sendable {
  private struct Endpoint: Hashable {
    var name: String
    var environment: StoreEnvironment
    var labels: [(String, String)] { [("endpoint", name), ("environment", environment.rawValue)] }
  }

  private let calls: LabelledCounter
  private let durations: Handles<Endpoint, Timer>

  package init(_ factory: any MetricsFactory) {
    let alerting =
      ["21000", "21001", "21004", "unknown"].map { ("verify_receipt", $0) }
      + ServerAPIEndpoint.allCases.map { ($0.metricName, "unknown") }
    calls = LabelledCounter(
      .appStoreRequests,
      zeros: StoreEnvironment.allCases.flatMap { store in alerting.map { [$0.0, store.rawValue, $0.1] } }, in: factory)
    durations = Handles { Timer(.appStoreRequestDuration, $0.labels, in: factory) }
  }

  package func note(_ attempt: VerifyReceiptAttempt) {
    note(Endpoint(name: "verify_receipt", environment: attempt.environment), attempt.outcome.label, attempt.duration)
  }

  package func note(_ attempt: ServerAPIAttempt) {
    note(
      Endpoint(name: attempt.endpoint.metricName, environment: attempt.environment), attempt.outcome.label,
      attempt.duration)
  }

  private func note(_ endpoint: Endpoint, _ status: String, _ duration: Duration) {
    calls.increment(endpoint.name, endpoint.environment.rawValue, status)
    durations[endpoint].record(duration)
  }
}

extension ServerAPIEndpoint {
  fileprivate var metricName: String {
    switch self {
    case .statuses: "subscription_statuses"
    case .transaction: "transaction_info"
    case .history, .payments: "transaction_history"
    case .order: "order_lookup"
    case .notifications: "notification_history"
    case .testNotification: "test_notification"
    case .testOutcome: "test_notification_status"
    case .consumption: "consumption_information"
    case .refunds: "refund_history"
    case .accountToken: "app_account_token"
    case .renewalExtension: "renewal_extension"
    case .productExtension: "product_extension"
    case .productExtensionStatus: "product_extension_status"
    }
  }
}

/// The outcome of a call to Apple as a label: one of some sixty words, whatever Apple answers.
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
  /// The documented codes that our calls can meet, with those of the notification history, of test notifications and of
  /// extensions, which the service follows; all others share one label.
  private static let codes: Set<Int> = [
    4_000_006, 4_000_008, 4_000_009, 4_000_012, 4_000_014, 4_000_017, 4_000_023, 4_000_027, 4_000_028, 4_030_004,
    4_030_005, 4_030_007, 4_040_001, 4_040_002, 4_040_003, 4_040_004, 4_040_005, 4_040_006, 4_040_007, 4_040_008,
    4_040_010, 4_290_000, 5_000_000, 5_000_001,
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
