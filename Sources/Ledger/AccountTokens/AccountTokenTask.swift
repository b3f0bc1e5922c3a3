package import Entitlements

/// The user whom Apple has to be told as that of a purchase.
package struct AccountTokenTask: Hashable, Sendable {
  package var key: SubscriptionKey
  package var bundleID: BundleID
  /// The user's ID, a lower-case UUID.
  package var token: String
  /// Attempts that failed.
  package var attempts: Int
}
