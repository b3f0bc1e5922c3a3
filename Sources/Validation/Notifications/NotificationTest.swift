package import AppStore
package import Entitlements
import Resilience

/// Has Apple post test notifications, and looks how they fared.
///
/// https://developer.apple.com/documentation/appstoreserverapi/request-a-test-notification
package struct NotificationTest: Sendable {
  /// The raw values are part of the answer.
  package enum Outcome: String, Sendable, CaseIterable {
    case arrived
    case failed
    /// App Store Connect has no URL for the app in this store.
    case noURL = "no_url"
    case keyRejected = "key_rejected"
    /// Apple takes no request for a test, or does not tell its outcome.
    case unavailable
    /// Apple has not posted the test yet.
    case pending
  }

  package struct Result: Sendable {
    package var bundleID: BundleID
    package var environment: StoreEnvironment
    package var outcome: Outcome
    /// Apple's word for the cause of a failure: `TIMED_OUT`, `TLS_ISSUE`.
    package var cause: String?
  }

  private var client: ServerAPIClient
  private var bundleIDs: [BundleID]
  private static let pause: Duration = .seconds(1)
  private static let width = 4
  /// Apple's codes for an app without a URL, and for an outcome that is not known yet.
  private static let noURL = 4_040_007
  private static let notYet = 4_040_008

  package init(client: ServerAPIClient, bundleIDs: [BundleID]) {
    self.client = client
    self.bundleIDs = bundleIDs
  }

  package func run(until end: ContinuousClock.Instant) async -> [Result] {
    let places = bundleIDs.flatMap { app in [StoreEnvironment.production, .sandbox].map { (app, $0) } }
    return await mapConcurrently(places, width: Self.width) { app, store in
      let (outcome, cause) = await test(app, store, until: end)
      return Result(bundleID: app, environment: store, outcome: outcome, cause: cause)
    }
  }

  private func test(
    _ bundleID: BundleID, _ store: StoreEnvironment, until end: ContinuousClock.Instant
  ) async -> (Outcome, cause: String?) {
    do throws(AppStoreError) {
      let token = try await client.requestTest(of: bundleID, in: store, deadline: end)
      repeat {
        if let result = try await outcome(of: token, bundleID, store, until: end) {
          return result == "SUCCESS" ? (.arrived, nil) : (.failed, String(result.prefix(64)))
        }
      } while await isWorthALook(before: end)
      return (.pending, nil)
    } catch {
      switch error {
      case .unexpected(Self.noURL, _): return (.noURL, nil)
      case .keyRejected: return (.keyRejected, nil)
      default: return (.unavailable, nil)
      }
    }
  }

  /// - Returns: Apple's word; `nil` while it does not know.
  private func outcome(
    of token: String, _ bundleID: BundleID, _ store: StoreEnvironment, until end: ContinuousClock.Instant
  ) async throws(AppStoreError) -> String? {
    do throws(AppStoreError) {
      return try await client.testOutcome(token, of: bundleID, in: store, deadline: end)
    } catch {
      if case .unexpected(Self.notYet, _) = error { return nil }
      throw error
    }
  }

  private func isWorthALook(before end: ContinuousClock.Instant) async -> Bool {
    guard ContinuousClock.now.advanced(by: Self.pause * 2) < end else { return false }
    do { try await Task.sleep(for: Self.pause) } catch { return false }
    return true
  }
}
