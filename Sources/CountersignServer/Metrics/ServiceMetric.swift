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
      (.counter, ["route", "method", "code"], "Requests that were answered, by the template of their route")
    case .httpRequestDuration: (.histogram, ["route"], "From a request's head until its answer is ready")
    case .httpRequestsInFlight: (.gauge, [], "Requests that are being handled")
    case .rateLimited: (.counter, ["limit"], "Requests that were turned away, by the limit that they were above")
    case .bodyBytes: (.gauge, [], "Bytes of request bodies in memory, of max_bytes_in_flight")
    case .waitingValidations: (.gauge, [], "Validations that have arrived and are not begun")
    case .verdicts: (.counter, ["tier", "status", "reason"], "Verdicts on an answer of Apple's that were recorded")
    case .subscribers: (.gauge, ["tier", "status"], "Users by tier and status, by their last verdicts")
    case .figureRatio:
      (.gauge, ["figure"], "Conversion, churn and success of webhooks over thirty days, as parts of one")
    case .figureBase: (.gauge, ["figure"], "The number that each of these is a part of")
    case .usage: (.counter, ["feature", "outcome"], "Consumptions of meters, by what became of them")
    case .trials: (.counter, ["trial", "outcome"], "Requests to begin a trial, by what became of them")
    case .appStoreRequests:
      (
        .counter, ["endpoint", "environment", "status"],
        "Calls to Apple, by the status in its answer or by what went wrong"
      )
    case .appStoreRequestDuration: (.histogram, ["endpoint", "environment"], "How long calls to Apple took")
    case .appStoreSharedSecretRejected: (.gauge, [], "1: Apple refused the shared secret in the last minute")
    case .serverAPIKeyRejected: (.gauge, [], "1: Apple refused the key of the Server API in the last minute")
    case .deviceCheckKeyRejected: (.gauge, [], "1: Apple refused the key of DeviceCheck when it was last asked")
    case .notifications:
      (.counter, ["version", "outcome"], "Notifications of Apple's, by what became of them")
    case .revenueCatEvents: (.counter, ["outcome"], "Events of RevenueCat's, by what became of them")
    case .breakerOpen: (.gauge, ["upstream"], "0 closed, 0.5 tried with one call, 1 open: nothing is sent")
    case .breakerRefused: (.counter, ["upstream"], "Calls that were not made, as the breaker was open")
    case .ledgerUp: (.gauge, [], "Whether the ledger takes records")
    case .ledgerCommitWrites: (.histogram, [], "Writes that shared one commit of the ledger")
    case .ledgerCommitDuration: (.histogram, [], "How long a commit of the ledger took, until it was on the disk")
    case .ledgerWaitingWrites: (.gauge, [], "Writes that wait for the next commit")
    case .ledgerDiskFree: (.gauge, [], "The free part of the disk that the ledger is on")
    case .ledgerConflicts: (.counter, [], "Operations made again, as they conflicted with another replica's")
    case .ledgerLostConnections: (.counter, [], "Connections to PostgreSQL that broke in an operation")
    case .historyRemoved: (.counter, [], "Lines of the history that retention has removed")
    case .replicas: (.gauge, [], "Replicas that live")
    case .pendingReceipts: (.gauge, [], "Receipts answered 202 that wait for Apple")
    case .pendingReceiptsAge: (.gauge, [], "How long the oldest of them waits")
    case .rechecksDue: (.gauge, [], "Subscriptions that Apple has to be asked about now")
    case .rechecksAge: (.gauge, [], "How long the one that is overdue longest is")
    case .profileWrites: (.counter, ["outcome"], "Attempts to write a profile, by what came of them")
    case .profileWriteDuration: (.histogram, [], "How long attempts to write a profile took that reached the store")
    case .profileStoreMisconfigured: (.gauge, [], "1: the profile store takes nothing from us until somebody fixes it")
    case .outboxDepth: (.gauge, [], "Profiles that are not up to date in the profile store")
    case .outboxAge: (.gauge, [], "How long the oldest of them waits")
    case .outboxLastError: (.gauge, ["code"], "1, while profiles wait: why the write that failed last did")
    case .missingProfiles: (.gauge, [], "Users without a row in the profile store")
    case .webhookAttempts:
      (.counter, ["webhook", "outcome"], "Attempts to deliver an event to a receiver, by their outcome")
    case .webhookAttemptDuration: (.histogram, ["webhook"], "How long attempts to deliver an event to a receiver took")
    case .webhookWaiting: (.gauge, ["webhook"], "Events that are to be delivered; 1000 stands for 1000 or more")
    case .webhookAge: (.gauge, ["webhook"], "Age of the oldest event that waits for a receiver")
    case .webhookDead: (.gauge, ["webhook"], "Events that were given up and can be redelivered")
    case .webhookDisabled: (.gauge, ["webhook"], "1: the receiver answered 410, and nothing more is delivered to it")
    case .downgradeBrakeEngaged: (.gauge, [], "1: nobody is lowered by the service until somebody releases the brake")
    case .withheldByRules:
      (.gauge, [], "Users whom a changed catalog or policy would lower, and who keep their tier until it is released")
    case .clockSkew: (.gauge, [], "How far the machine's clock is ahead of the service's; 0 up to five minutes")
    case .tlsCertificateExpiry: (.gauge, [], "When the certificate that is shown ends, in seconds since 1970")
    case .buildInfo: (.gauge, ["version", "swift"], "1; the version is in the labels")
    case .processCPU: (.counter, [], "Processor time used, user and system")
    case .processResidentMemory: (.gauge, [], "Memory in use")
    case .processOpenFiles: (.gauge, [], "Open file descriptors")
    case .processMaxFiles: (.gauge, [], "File descriptors that may be open at most")
    case .processStartTime: (.gauge, [], "When the process began, in seconds since 1970")
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
