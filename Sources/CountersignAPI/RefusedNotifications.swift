/// The answer to `GET /v1/notifications/refused`: notifications of Apple's and events of RevenueCat's that were not
/// believed or could not be read, the newest first.
public struct RefusedNotifications: Codable, Hashable, Sendable {
  /// One of them. The same payload, posted again, is the same one.
  public struct Entry: Codable, Hashable, Sendable {
    public var receivedAt: Date
    /// The reason, as a sentence.
    public var problem: String
    /// Whether Apple or RevenueCat is proven to have sent it. If not, anybody may have.
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
