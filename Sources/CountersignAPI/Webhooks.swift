/// The receivers of webhooks: `GET /v1/webhooks`.
public struct WebhooksResponse: Codable, Hashable, Sendable {
  public var webhooks: [WebhookResponse]

  public init(webhooks: [WebhookResponse]) { self.webhooks = webhooks }
}

/// The state of a receiver of webhooks.
public struct WebhookResponse: Codable, Hashable, Sendable {
  public var name: String
  /// Its URL without path and query, which may be secret.
  public var origin: String
  /// The shape of a body: `countersign` or `revenuecat`.
  public var format: String
  /// The types of event that it receives; empty for all of the service's own.
  public var events: [String]
  /// `false`: the receiver answered 410, and nothing more is delivered to it.
  public var isEnabled: Bool
  /// Events that wait for another attempt, or behind one that does.
  public var waiting: Int
  /// Events that were given up.
  public var dead: Int
  /// The oldest event that was neither delivered nor given up.
  @Nullable public var oldestAt: Date?
  /// The code of the last failed delivery: `http_500`, `timed_out`.
  @Nullable public var problem: String?
  @Nullable public var problemAt: Date?

  public init(
    name: String, origin: String, format: String, events: [String], isEnabled: Bool, waiting: Int, dead: Int,
    oldestAt: Date?, problem: String?, problemAt: Date?
  ) {
    self.name = name
    self.origin = origin
    self.format = format
    self.events = events
    self.isEnabled = isEnabled
    self.waiting = waiting
    self.dead = dead
    self.oldestAt = oldestAt
    self.problem = problem
    self.problemAt = problemAt
  }

  public enum CodingKeys: String, CodingKey {
    case name, origin, format, events, waiting, dead, problem
    case isEnabled = "enabled"
    case oldestAt = "oldest_at"
    case problemAt = "problem_at"
  }
}

/// The events that were given up: `GET /v1/webhooks/dead`.
public struct DeadLettersResponse: Codable, Hashable, Sendable {
  public var dead: [DeadLetterResponse]
  /// The path of the next page; `null` at the end.
  @Nullable public var next: String?

  public init(dead: [DeadLetterResponse], next: String?) {
    self.dead = dead
    self.next = next
  }
}

/// An event that was given up, for one receiver.
public struct DeadLetterResponse: Codable, Hashable, Sendable {
  public var webhook: String
  public var eventID: String
  public var type: String
  /// `nil` for an event about nobody's purchase, and for a forwarded notification.
  @Nullable public var userID: String?
  /// The moment of the change.
  public var timestamp: Date
  public var attempts: Int
  @Nullable public var problem: String?
  @Nullable public var failedAt: Date?

  public init(
    webhook: String, eventID: String, type: String, userID: String?, timestamp: Date, attempts: Int, problem: String?,
    failedAt: Date?
  ) {
    self.webhook = webhook
    self.eventID = eventID
    self.type = type
    self.userID = userID
    self.timestamp = timestamp
    self.attempts = attempts
    self.problem = problem
    self.failedAt = failedAt
  }

  public enum CodingKeys: String, CodingKey {
    case webhook, type, timestamp, attempts, problem
    case eventID = "event_id"
    case userID = "user_id"
    case failedAt = "failed_at"
  }
}

/// The body of `POST /v1/webhooks/redeliver`: at most one of `eventID` and `isDead`.
public struct RedeliveryRequest: Codable, Hashable, Sendable {
  /// The receiver's name; it is enabled, except where an event is discarded.
  public var webhook: String
  /// One event, given up or not.
  public var eventID: String?
  /// Whether everything that was given up is delivered again.
  public var isDead: Bool?
  /// Whether the event, which was given up, is forgotten instead.
  public var discards: Bool?

  public init(webhook: String, eventID: String? = nil, isDead: Bool? = nil, discards: Bool? = nil) {
    self.webhook = webhook
    self.eventID = eventID
    self.isDead = isDead
    self.discards = discards
  }

  public enum CodingKeys: String, CodingKey {
    case webhook
    case eventID = "event_id"
    case isDead = "dead"
    case discards = "discard"
  }
}

/// The answer to `POST /v1/webhooks/redeliver`.
public struct RedeliveryResponse: Codable, Hashable, Sendable {
  public var webhook: String
  /// The number of events on their way again.
  public var redelivered: Int

  public init(webhook: String, redelivered: Int) {
    self.webhook = webhook
    self.redelivered = redelivered
  }
}
