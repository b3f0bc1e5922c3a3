import Entitlements
import HTTPTransport
import Validation

/// Has Apple post a test notification, and reports its outcome.
extension Checkup {
  /// Apple posts within seconds.
  private static let patience: Duration = .seconds(20)

  func testNotificationFindings() async -> [Finding] {
    guard testsNotifications else { return [] }
    do {
      guard let (client, transport) = try serverAPIClient() else {
        return [Finding("notifications", .warning, "no test can be asked for without app_store.server_api")]
      }
      defer { transport.shutdown() }
      let test = NotificationTest(client: client, bundleIDs: configuration.appStore.orderedBundleIDs)
      return await test.run(until: .now.advanced(by: Self.patience)).map(Self.finding)
    } catch { return [Finding("notifications", .fail, "the HTTP client cannot start: \(error)")] }
  }

  private static func finding(_ test: NotificationTest.Result) -> Finding {
    let app = test.bundleID.rawValue
    let (verdict, sentence): (Finding.Verdict, String) =
      switch test.outcome {
      case .arrived: (.ok, "Apple's test of \(app) arrived")
      case .failed:
        (
          .fail,
          "Apple's test of \(app) did not arrive (\(ServiceClient.printable(test.cause ?? ""))): is the URL in App Store "
            + "Connect right, and does it lead here by TLS?"
        )
      case .noURL:
        (
          .warning,
          "\(app) has no URL for them: set https://HOST/v1/notifications/app-store in App Store Connect: "
            + AppStoreConnect.notifications
        )
      case .keyRejected: (.warning, "Apple refuses the key, so no test can be asked for")
      case .unavailable:
        (.warning, "Apple takes no request for a test of \(app), or does not tell its outcome; try again")
      case .pending: (.warning, "Apple has not posted its test of \(app) yet; look at the log")
      }
    return Finding("notifications.\(test.environment.rawValue)", verdict, sentence)
  }
}
