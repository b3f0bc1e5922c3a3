package import Entitlements

/// The apps that this service serves (`app_store.bundle_ids`, `app_store.app_apple_ids`).
package struct ServedApps: Hashable, Sendable {
  /// The bundle IDs, in the order of attempts for a purchase of an unknown app.
  var bundleIDs: [BundleID]
  /// Apple's numbers of the apps, checked in production; empty: any.
  private var appAppleIDs: Set<Int64>

  package init(bundleIDs: [BundleID], appAppleIDs: Set<Int64>) {
    self.bundleIDs = bundleIDs
    self.appAppleIDs = appAppleIDs
  }

  func contains(_ bundleID: BundleID) -> Bool { bundleIDs.contains(bundleID) }

  /// Whether a number may be one of the apps'. Sandbox answers often have none.
  func mayContain(appAppleID number: Int64?, in environment: StoreEnvironment?) -> Bool {
    guard environment == .production, !appAppleIDs.isEmpty, let number else { return true }
    return appAppleIDs.contains(number)
  }
}
