/// The answer to a notification of Apple's: what became of it.
/// https://developer.apple.com/documentation/appstoreservernotifications
public struct NotificationResponse: Codable, Hashable, Sendable {
  /// `recorded`, `unclaimed`, `noted`, `duplicate`, `refused`, `unreadable` or `rechecking`.
  public var outcome: String
  /// Apple's `notificationUUID`; `nil` where it has none, or none that can be believed.
  @Nullable public var notificationUUID: String?

  public init(outcome: String, notificationUUID: String? = nil) {
    self.outcome = outcome
    self.notificationUUID = notificationUUID
  }

  enum CodingKeys: String, CodingKey {
    case outcome
    case notificationUUID = "notification_uuid"
  }
}
