/// The answer to a notification of Apple's: its outcome.
/// https://developer.apple.com/documentation/appstoreservernotifications
public struct NotificationResponse: Codable, Hashable, Sendable {
  /// `recorded`, `unclaimed`, `noted`, `duplicate`, `refused`, `unreadable` or `rechecking`.
  public var outcome: String
  /// Apple's `notificationUUID`; `nil` if it is absent or not authentic.
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
