/// The retry schedule of webhooks: that of Standard Webhooks, section "Deliverability and
/// reliability", with up to a tenth more.
///
///     attempt   1    2     3       4        5     6     7      8      9      10
///     after     0    5 s   5 min   30 min   2 h   5 h   10 h   14 h   20 h   24 h
///
/// Notifications are forwarded by Apple's own schedule for them:
///
///     attempt   1    2     3      4      5      6
///     after     0    1 h   12 h   24 h   48 h   72 h
///
/// https://developer.apple.com/documentation/appstoreservernotifications/responding-to-app-store-server-notifications
package enum WebhookSchedule {
  private static let pauses: [Duration] =
    [.seconds(5), .seconds(300), .seconds(1_800)] + [2, 5, 10, 14, 20, 24].map { .seconds($0 * 3_600) }

  private static let pausesOfApple: [Duration] = [1, 12, 24, 48, 72].map { .seconds($0 * 3_600) }

  /// The time from the first attempt of a forwarded notification to the last, with chance.
  package static let longestForwarding = pausesOfApple.reduce(.zero, +) * 11 / 10

  /// The longest pause that a receiver may ask for.
  package static let longestRetryAfter = Duration.seconds(86_400)

  /// The pause before the next attempt; `nil` after the last one.
  ///
  /// - Parameters:
  ///   - attempts: those that failed, one or more.
  ///   - format: decides the schedule.
  ///   - retryAfter: the pause that the receiver asks for.
  ///   - jitter: chance, from zero to its argument.
  package static func pause(
    after attempts: Int, in format: WebhookEndpoint.Format = .countersign, retryAfter: Duration? = nil,
    jitter: (Duration) -> Duration
  ) -> Duration? {
    let pauses = format == .appStore ? pausesOfApple : pauses
    guard pauses.indices.contains(attempts - 1) else { return nil }
    let pause = pauses[attempts - 1]
    let drawn = pause + min(max(jitter(pause / 10), .zero), pause / 10)
    return max(drawn, min(retryAfter ?? .zero, longestRetryAfter))
  }
}
