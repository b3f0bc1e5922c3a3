/// The answer to `GET /readyz`: the service's readiness, and the state of each of its dependencies.
public struct Readiness: Codable, Hashable, Sendable {
  /// `ok` or `unready`.
  public var status: String
  /// `ok`, `unavailable`, `failed` or `closed`.
  public var ledger: String
  /// As last seen: `unknown`, `answering`, `unavailable`, `shared_secret_rejected` or `server_api_key_rejected`.
  public var appStore: String
  /// `none`, `unknown`, `ok`, or `unavailable` or `misconfigured` with a code after a colon.
  public var profileStore: String
  /// Profile rows that are not up to date; absent without a profile store.
  public var outbox: Outbox?
  /// Receipts answered 202 that wait for Apple; absent where the ledger cannot be read.
  public var pendingReceipts: Int?
  /// `released` or `engaged`.
  public var downgradeBrake: String
  /// Users whom a changed catalog or policy would lower, and who keep their tier.
  public var withheldByRules: Int
  /// `ok` or `off`.
  public var clock: String
  /// `ok`; `behind`: Apple's history of notifications could not be asked; `gap`: Apple does not keep what was missed. Absent
  /// where Apple cannot be asked.
  public var notificationHistory: String?
  /// Apple's requests for consumption information; absent where Apple cannot be answered.
  public var consumptionRequests: ConsumptionRequests?
  /// The keys by which users' tokens are checked; absent where none are fetched.
  public var userKeys: String?
  /// The roles of the key that asks, of `service` and `support`; absent in the answer of `/readyz`.
  public var roles: [String]?

  public init(
    status: String, ledger: String, appStore: String, profileStore: String, outbox: Outbox? = nil,
    pendingReceipts: Int? = nil, downgradeBrake: String, withheldByRules: Int, clock: String,
    notificationHistory: String? = nil, consumptionRequests: ConsumptionRequests? = nil, userKeys: String? = nil,
    roles: [String]? = nil
  ) {
    self.status = status
    self.ledger = ledger
    self.appStore = appStore
    self.profileStore = profileStore
    self.outbox = outbox
    self.pendingReceipts = pendingReceipts
    self.downgradeBrake = downgradeBrake
    self.withheldByRules = withheldByRules
    self.clock = clock
    self.notificationHistory = notificationHistory
    self.consumptionRequests = consumptionRequests
    self.userKeys = userKeys
    self.roles = roles
  }

  enum CodingKeys: String, CodingKey {
    case status, ledger
    case appStore = "app_store"
    case profileStore = "profile_store"
    case outbox
    case pendingReceipts = "pending_receipts"
    case downgradeBrake = "downgrade_brake"
    case withheldByRules = "withheld_by_rules"
    case clock
    case notificationHistory = "notification_history"
    case consumptionRequests = "consumption_requests"
    case userKeys = "user_keys"
    case roles
  }
}

extension Readiness {
  /// The profile updates that wait for the store.
  public struct Outbox: Codable, Hashable, Sendable {
    /// Profile rows that wait.
    public var depth: Int
    /// How long the oldest has waited, in seconds.
    public var ageSeconds: Int
    @Nullable public var lastError: String?
    /// Users without a row.
    public var missing: Int

    public init(depth: Int, ageSeconds: Int, lastError: String? = nil, missing: Int) {
      self.depth = depth
      self.ageSeconds = ageSeconds
      self.lastError = lastError
      self.missing = missing
    }

    enum CodingKeys: String, CodingKey {
      case depth
      case ageSeconds = "age_seconds"
      case lastError = "last_error"
      case missing
    }
  }

  /// Apple's requests for consumption information.
  public struct ConsumptionRequests: Codable, Hashable, Sendable {
    /// Requests that wait for an answer.
    public var due: Int
    /// Requests of the last week whose time ended without an answer.
    public var missed: Int

    public init(due: Int, missed: Int) {
      self.due = due
      self.missed = missed
    }
  }
}

/// The answer to `GET /livez`: the process answers.
public struct Liveness: Codable, Hashable, Sendable {
  public var status: String

  public init(status: String = "ok") { self.status = status }
}
