package import Entitlements

/// A key that every copy of an app carries (`auth.public_keys`). It names the app, and proves nothing about a user: only
/// the routes of a dialect take it, and those of trials, where the device is the user.
package struct PublicKey: Hashable, Sendable {
  /// The name in logs and metrics.
  package let name: String
  /// The key in clear, as it stands in the app: RevenueCat's SDKs expect `appl_…` or `goog_…`.
  package let key: String
  /// The app that carries it.
  package let bundleID: BundleID

  package init(name: String, key: String, bundleID: BundleID) {
    self.name = name
    self.key = key
    self.bundleID = bundleID
  }
}
