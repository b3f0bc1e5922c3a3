package import Entitlements

extension SubscriptionEvidence {
  /// Whether the purchase was made for this user, as the app said when it was made.
  package func names(_ user: UserID) -> Bool {
    let account = user.rawValue.lowercased()
    return !namesAnother(than: user) && purchases.contains { $0.appAccountToken == account }
  }
}
