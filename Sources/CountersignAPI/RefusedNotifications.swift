/// The answer to `GET /v1/notifications/refused`: notifications of Apple's and events of RevenueCat's that were not
/// authentic or not readable, the newest first.
public struct RefusedNotifications: Codable, Hashable, Sendable {
  /// A refused notification. A repeated payload has one entry.
  public struct Entry: Codable, Hashable, Sendable {
    public var receivedAt: Date
    /// The reason, as a sentence.
    public var problem: String
    /// Whether its sender is proven to be Apple or RevenueCat.
    public var isAuthentic: Bool

    public init(receivedAt: Date, problem: String, isAuthentic: Bool) {
      self.receivedAt = receivedAt
      self.problem = problem
      self.isAuthentic = isAuthentic
    }

    enum CodingKeys: String, CodingKey {
      case receivedAt = "received_at"
      case problem
      case isAuthentic = "authentic"
    }
  }

  public var notifications: [Entry]

  public init(notifications: [Entry]) { self.notifications = notifications }
}
