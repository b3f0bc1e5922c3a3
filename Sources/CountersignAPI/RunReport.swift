/// A run of re-validations as the service reports it: `due` is `done`, `failed`, `heldBack` and `remaining` together.
public struct RunReport: Codable, Hashable, Sendable {
  /// `nil` for a dry run.
  @Nullable public var id: String?
  public var state: State
  /// The longest time until a subscription's end, as a duration: `24h`, `7d`.
  public var expiringWithin: String
  /// The most subscriptions that the run takes.
  public var limit: Int
  public var due: Int
  public var done: Int
  /// Subscriptions among `done` whose verdict changed.
  public var changed: Int
  public var failed: Int
  /// Subscriptions whose verdict the downgrade brake held back.
  public var heldBack: Int
  public var remaining: Int
  /// Subscriptions a second.
  @Nullable public var rate: Double?
  /// The upstream that the run waits for: `app_store`.
  @Nullable public var waitingFor: String?
  @Nullable public var startedAt: Date?
  @Nullable public var finishedAt: Date?
  /// The reason for a stop: `downgrade_brake`.
  @Nullable public var stoppedReason: String?

  public init(
    id: String? = nil, state: State, expiringWithin: String, limit: Int, due: Int, done: Int, changed: Int, failed: Int,
    heldBack: Int, remaining: Int, rate: Double? = nil, waitingFor: String? = nil, startedAt: Date? = nil,
    finishedAt: Date? = nil, stoppedReason: String? = nil
  ) {
    self.id = id
    self.state = state
    self.expiringWithin = expiringWithin
    self.limit = limit
    self.due = due
    self.done = done
    self.changed = changed
    self.failed = failed
    self.heldBack = heldBack
    self.remaining = remaining
    self.rate = rate
    self.waitingFor = waitingFor
    self.startedAt = startedAt
    self.finishedAt = finishedAt
    self.stoppedReason = stoppedReason
  }

  enum CodingKeys: String, CodingKey {
    case id, state
    case expiringWithin = "expiring_within"
    case limit, due, done, changed, failed
    case heldBack = "held_back"
    case remaining, rate
    case waitingFor = "waiting_for"
    case startedAt = "started_at"
    case finishedAt = "finished_at"
    case stoppedReason = "stopped_reason"
  }
}

/// The last runs, the newest first: `GET /v1/revalidations`.
public struct RunsResponse: Codable, Hashable, Sendable {
  public var runs: [RunReport]

  public init(runs: [RunReport]) { self.runs = runs }
}

extension RunReport {
  /// The state of a run.
  public struct State: OpenValue {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    public static let running: Self = "running"
    public static let finished: Self = "finished"
    public static let stopped: Self = "stopped"
    /// A dry run: due subscriptions were only counted.
    public static let dryRun: Self = "dry_run"
  }
}
