import AppStore
import Entitlements
import FoundationEssentials
import HTTPTransport

/// Has Apple post a test notification, and reports its outcome.
///
/// https://developer.apple.com/documentation/appstoreserverapi/request-a-test-notification
extension Checkup {
  /// The most questions for the outcome of a test, a second apart.
  private static let looks = 15
  /// Apple's codes for an app without a URL, and for an outcome that is not known yet.
  private static let noURL = 4_040_007
  private static let notYet = 4_040_008

  func testNotificationFindings() async -> [Finding] {
    guard testsNotifications else { return [] }
    let client: ServerAPIClient
    let transport: CurlTransport
    do {
      guard let made = try serverAPIClient() else {
        return [Finding("notifications", .warning, "no test can be asked for without app_store.server_api")]
      }
      (client, transport) = made
    } catch {
      return [Finding("notifications", .fail, "the HTTP client cannot start: \(error)")]
    }
    defer { transport.shutdown() }
    var findings: [Finding] = []
    for bundleID in configuration.appStore.orderedBundleIDs {
      for store in [StoreEnvironment.production, .sandbox] {
        findings.append(await test(client, bundleID, store))
      }
    }
    return findings
  }

  private func test(_ client: ServerAPIClient, _ bundleID: BundleID, _ store: StoreEnvironment) async -> Finding {
    let subject = "notifications.\(store.rawValue)"
    func deadline() -> ContinuousClock.Instant { .now.advanced(by: Self.callLimit) }
    let token: String
    do throws(AppStoreError) {
      token = try await client.requestTest(of: bundleID, in: store, deadline: deadline())
    } catch {
      let sentence =
        switch error {
        case .unexpected(Self.noURL, _):
          "\(bundleID.rawValue) has no URL for them: set https://HOST/v1/notifications/app-store in App Store Connect: "
            + AppStoreConnect.notifications
        case .keyRejected: "Apple refuses the key, so no test can be asked for"
        default: "Apple takes no request for a test of \(bundleID.rawValue); try again"
        }
      return Finding(subject, .warning, sentence)
    }
    for look in 0..<Self.looks {
      if look > 0 { try? await Task.sleep(for: .seconds(1)) }
      let outcome: TestNotificationOutcome
      do throws(AppStoreError) {
        outcome = try await client.testOutcome(token, of: bundleID, in: store, deadline: deadline())
      } catch {
        if case .unexpected(Self.notYet, _) = error { continue }
        return Finding(subject, .warning, "Apple does not tell the outcome of its test of \(bundleID.rawValue)")
      }
      guard let result = outcome.result else { continue }
      guard result != "SUCCESS" else {
        return Finding(subject, .ok, "Apple's test of \(bundleID.rawValue) arrived")
      }
      return Finding(
        subject, .fail,
        "Apple's test of \(bundleID.rawValue) did not arrive (\(ServiceClient.printable(String(result.prefix(64))))): is the "
          + "URL in App Store Connect right, and does it lead here by TLS?")
    }
    return Finding(subject, .warning, "Apple has not posted its test of \(bundleID.rawValue) yet; look at the log")
  }
}
