/// A request to take what Apple has sent, or tried to send, since a moment.
public struct CatchUpRequest: Codable, Hashable, Sendable {
  /// RFC 3339.
  public var since: String?

  public init(since: String? = nil) { self.since = since }
}

/// The answer to `/v1/notifications/history`: what was asked of Apple's history of notifications.
public struct NotificationHistoryResponse: Codable, Hashable, Sendable {
  /// An app in a store.
  public struct Source: Codable, Hashable, Sendable {
    public var bundleID: String
    /// `production` or `sandbox`.
    public var environment: String
    /// Everything until then was asked for; `nil` before the first time.
    @Nullable public var through: Date?
    /// Whether Apple is being asked.
    public var isAsking: Bool
    /// Notifications in Apple's last answers, and those of them that were new.
    public var seen: Int
    public var taken: Int
    /// The UUIDs of the newest 20 notifications that could not be recorded and were passed over, the newest at the end.
    public var passedOver: [String]
    /// Why Apple could not be asked the last time.
    @Nullable public var problem: String?
    @Nullable public var gap: Gap?

    public init(
      bundleID: String, environment: String, through: Date?, isAsking: Bool, seen: Int, taken: Int,
      passedOver: [String], problem: String?, gap: Gap?
    ) {
      self.bundleID = bundleID
      self.environment = environment
      self.through = through
      self.isAsking = isAsking
      self.seen = seen
      self.taken = taken
      self.passedOver = passedOver
      self.problem = problem
      self.gap = gap
    }

    enum CodingKeys: String, CodingKey {
      case bundleID = "bundle_id"
      case environment, through
      case isAsking = "asking"
      case seen, taken
      case passedOver = "passed_over"
      case problem, gap
    }
  }

  /// A stretch of time of which Apple keeps nothing any more.
  public struct Gap: Codable, Hashable, Sendable {
    public var from: Date
    public var to: Date

    public init(from: Date, to: Date) {
      self.from = from
      self.to = to
    }
  }

  /// Empty without a key of the Server API.
  public var sources: [Source]

  public init(sources: [Source]) { self.sources = sources }
}
