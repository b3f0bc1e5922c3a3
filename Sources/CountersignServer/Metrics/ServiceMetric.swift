package import Prometheus

/// Every metric of the service: the one table from which values are described, and with which the page
/// docs/reference/metrics.md, the dashboard and the alert rules are compared.
///
/// Names follow https://prometheus.io/docs/practices/naming/. No label holds anything of a user, a receipt or a key.
package enum ServiceMetric: String, CaseIterable, Sendable {
  case httpRequests = "countersign_http_requests_total"
  case httpRequestDuration = "countersign_http_request_duration_seconds"
  case httpRequestsInFlight = "countersign_http_requests_in_flight"
  case rateLimited = "countersign_rate_limited_total"
  case bodyBytes = "countersign_http_body_bytes"
  case waitingValidations = "countersign_waiting_validations"
  case verdicts = "countersign_verdicts_total"
  case subscribers = "countersign_subscribers"
  case figureRatio = "countersign_figure_ratio"
  case figureBase = "countersign_figure_base"
  case usage = "countersign_usage_total"
  case trials = "countersign_trials_total"
  case appStoreRequests = "countersign_app_store_requests_total"
  case appStoreRequestDuration = "countersign_app_store_request_duration_seconds"
  case appStoreSharedSecretRejected = "countersign_app_store_shared_secret_rejected"
  case serverAPIKeyRejected = "countersign_server_api_key_rejected"
  case deviceCheckKeyRejected = "countersign_device_check_key_rejected"
  case notifications = "countersign_notifications_total"
  case notificationHistoryAge = "countersign_notification_history_age_seconds"
  case notificationGap = "countersign_notification_gap_seconds"
  case consumptionRequests = "countersign_consumption_requests_total"
  case consumptionRequestsDue = "countersign_consumption_requests_due"
  case accountTokens = "countersign_account_tokens_total"
  case accountTokensDue = "countersign_account_tokens_due"
  case refundsFound = "countersign_refunds_found_total"
  case refundSweepAge = "countersign_refund_sweep_age_seconds"
  case renewalExtensions = "countersign_renewal_extensions_total"
  case revenueCatEvents = "countersign_revenuecat_events_total"
  case breakerOpen = "countersign_breaker_open"
  case breakerRefused = "countersign_breaker_refused_total"
  case ledgerUp = "countersign_ledger_up"
  case ledgerCommitWrites = "countersign_ledger_commit_writes"
  case ledgerCommitDuration = "countersign_ledger_commit_duration_seconds"
  case ledgerWaitingWrites = "countersign_ledger_waiting_writes"
  case ledgerDiskFree = "countersign_ledger_disk_free_ratio"
  case ledgerConflicts = "countersign_ledger_conflicts_total"
  case ledgerLostConnections = "countersign_ledger_lost_connections_total"
  case historyRemoved = "countersign_history_removed_total"
  case replicas = "countersign_replicas"
  case pendingReceipts = "countersign_pending_receipts"
  case pendingReceiptsAge = "countersign_pending_receipts_age_seconds"
  case rechecksDue = "countersign_rechecks_due"
  case rechecksAge = "countersign_rechecks_age_seconds"
  case profileWrites = "countersign_profile_writes_total"
  case profileWriteDuration = "countersign_profile_write_duration_seconds"
  case profileStoreMisconfigured = "countersign_profile_store_misconfigured"
  case outboxDepth = "countersign_outbox_depth"
  case outboxAge = "countersign_outbox_age_seconds"
  case outboxLastError = "countersign_outbox_last_error"
  case missingProfiles = "countersign_missing_profiles"
  case webhookAttempts = "countersign_webhook_attempts_total"
  case webhookAttemptDuration = "countersign_webhook_attempt_duration_seconds"
  case webhookWaiting = "countersign_webhook_waiting"
  case webhookAge = "countersign_webhook_age_seconds"
  case webhookDead = "countersign_webhook_dead"
  case webhookDisabled = "countersign_webhook_disabled"
  case downgradeBrakeEngaged = "countersign_downgrade_brake_engaged"
  case withheldByRules = "countersign_withheld_by_rules"
  case clockSkew = "countersign_clock_skew_seconds"
  case tlsCertificateExpiry = "countersign_tls_certificate_expiry_timestamp_seconds"
  case buildInfo = "countersign_build_info"
  case processCPU = "process_cpu_seconds_total"
  case processResidentMemory = "process_resident_memory_bytes"
  case processOpenFiles = "process_open_fds"
  case processMaxFiles = "process_max_fds"
  case processStartTime = "process_start_time_seconds"

  /// The help text, and the names of the labels.
  var entry: (kind: MetricFamily.Kind, labels: [String], help: String) {
    switch self {
    case .httpRequests:
      (.counter, ["route", "method", "code"], "Answered requests, by the template of their route")
    case .httpRequestDuration: (.histogram, ["route"], "Time from a request's head to its answer")
    case .httpRequestsInFlight: (.gauge, [], "Requests in progress")
    case .rateLimited: (.counter, ["limit"], "Requests refused by a rate limit, by limit")
    case .bodyBytes: (.gauge, [], "Bytes of request bodies in memory, of max_bytes_in_flight and a quarter more")
    case .waitingValidations: (.gauge, [], "Validations that wait for their turn")
    case .verdicts: (.counter, ["tier", "status", "reason"], "Verdicts on an answer of Apple's that were recorded")
    case .subscribers: (.gauge, ["tier", "status"], "Users by tier and status, by their last verdicts")
    case .figureRatio:
      (.gauge, ["figure"], "Conversion, churn and success of webhooks over thirty days, as ratios")
    case .figureBase: (.gauge, ["figure"], "Denominator of each ratio")
    case .usage: (.counter, ["feature", "outcome"], "Consumptions of meters, by outcome")
    case .trials: (.counter, ["trial", "outcome"], "Requests to begin a trial, by outcome")
    case .appStoreRequests:
      (
        .counter, ["endpoint", "environment", "status"],
        "Calls to Apple, by the status of its answer or by error"
      )
    case .appStoreRequestDuration: (.histogram, ["endpoint", "environment"], "Duration of calls to Apple")
    case .appStoreSharedSecretRejected: (.gauge, [], "1: Apple refused the shared secret in the last minute")
    case .serverAPIKeyRejected: (.gauge, [], "1: Apple refused the key of the Server API in the last minute")
    case .deviceCheckKeyRejected: (.gauge, [], "1: Apple refused the key of DeviceCheck when it was last asked")
    case .notifications: (.counter, ["version", "outcome"], "Apple's server notifications, by outcome")
    case .notificationHistoryAge:
      (
        .gauge, ["environment"],
        "Time since Apple was last asked for missed notifications, of the app asked longest ago"
      )
    case .notificationGap:
      (.gauge, ["environment"], "Length of the gap whose notifications Apple no longer keeps, for thirty days")
    case .consumptionRequests:
      (.counter, ["outcome"], "Apple's requests for consumption information that are over, by outcome")
    case .consumptionRequestsDue: (.gauge, [], "Apple's requests for consumption information that wait for an answer")
    case .accountTokens: (.counter, ["outcome"], "Users of purchases that Apple was told, or refuses")
    case .accountTokensDue: (.gauge, [], "Users of purchases that Apple has to be told")
    case .refundsFound: (.counter, ["source"], "Refunds that no notification had told, by who asked Apple")
    case .refundSweepAge: (.gauge, [], "Time since the last sweep for refunds of one-time purchases ended")
    case .renewalExtensions:
      (.counter, ["of", "outcome"], "Extensions of renewal dates that are over, of purchases and products, by outcome")
    case .revenueCatEvents: (.counter, ["outcome"], "RevenueCat's webhook events, by outcome")
    case .breakerOpen: (.gauge, ["upstream"], "Circuit breaker: 0 closed, 0.5 half open, 1 open")
    case .breakerRefused: (.counter, ["upstream"], "Calls refused while the circuit breaker was open")
    case .ledgerUp: (.gauge, [], "1: the ledger can be written")
    case .ledgerCommitWrites: (.histogram, [], "Writes per commit of the ledger")
    case .ledgerCommitDuration: (.histogram, [], "Duration of the ledger's commits, the write to the disk included")
    case .ledgerWaitingWrites: (.gauge, [], "Writes that wait for the next commit")
    case .ledgerDiskFree: (.gauge, [], "Free share of the ledger's disk")
    case .ledgerConflicts: (.counter, [], "Operations repeated after a conflict with another replica")
    case .ledgerLostConnections: (.counter, [], "Connections to PostgreSQL lost during an operation")
    case .historyRemoved: (.counter, [], "Lines of the history that retention has removed")
    case .replicas: (.gauge, [], "Live replicas")
    case .pendingReceipts: (.gauge, [], "Receipts answered 202 that wait for Apple")
    case .pendingReceiptsAge: (.gauge, [], "Age of the oldest of these receipts")
    case .rechecksDue: (.gauge, [], "Subscriptions due for a check with Apple")
    case .rechecksAge: (.gauge, [], "Time since the oldest of these checks was due")
    case .profileWrites: (.counter, ["outcome"], "Attempts to write a profile, by outcome")
    case .profileWriteDuration: (.histogram, [], "Duration of attempts to write a profile that reached the store")
    case .profileStoreMisconfigured:
      (.gauge, [], "1: the profile store refuses every update until its configuration is fixed")
    case .outboxDepth: (.gauge, [], "Profiles that wait to be written to the profile store")
    case .outboxAge: (.gauge, [], "Age of the oldest of these writes")
    case .outboxLastError: (.gauge, ["code"], "1, while profiles wait: the error of the last failed write")
    case .missingProfiles: (.gauge, [], "Users without a row in the profile store")
    case .webhookAttempts:
      (.counter, ["webhook", "outcome"], "Attempts to deliver an event to a receiver, by outcome")
    case .webhookAttemptDuration: (.histogram, ["webhook"], "Duration of attempts to deliver an event to a receiver")
    case .webhookWaiting: (.gauge, ["webhook"], "Events to deliver; 1000 stands for 1000 or more")
    case .webhookAge: (.gauge, ["webhook"], "Age of the oldest event that waits for a receiver")
    case .webhookDead: (.gauge, ["webhook"], "Events that were given up; they can be redelivered")
    case .webhookDisabled: (.gauge, ["webhook"], "1: the receiver answered 410, and nothing more is delivered to it")
    case .downgradeBrakeEngaged: (.gauge, [], "1: the downgrade brake is engaged")
    case .withheldByRules:
      (.gauge, [], "Users whom a changed catalog or policy would downgrade, once the brake is released")
    case .clockSkew:
      (.gauge, [], "Seconds by which the machine's clock is ahead of the service's; 0 up to five minutes")
    case .tlsCertificateExpiry: (.gauge, [], "End of the server's certificate, in seconds since 1970")
    case .buildInfo: (.gauge, ["version", "swift"], "1; the version is in the labels")
    case .processCPU: (.counter, [], "Processor time used, user and system")
    case .processResidentMemory: (.gauge, [], "Memory in use")
    case .processOpenFiles: (.gauge, [], "Open file descriptors")
    case .processMaxFiles: (.gauge, [], "Limit of open file descriptors")
    case .processStartTime: (.gauge, [], "Start of the process, in seconds since 1970")
    }
  }

  private var buckets: [Double] {
    switch self {
    // One, and the powers of two up to the most that share a commit.
    case .ledgerCommitWrites: [1, 2, 4, 8, 16, 32, 64]
    default: PrometheusRegistry.seconds
    }
  }

  private var description: PrometheusRegistry.Description {
    PrometheusRegistry.Description(rawValue, entry.kind, entry.help, buckets: buckets)
  }

  /// A registry that knows all of them, for one service.
  package static func registry() -> PrometheusRegistry { PrometheusRegistry(allCases.map(\.description)) }
}
