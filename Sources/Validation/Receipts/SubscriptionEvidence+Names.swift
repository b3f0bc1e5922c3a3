import Entitlements

extension SubscriptionEvidence {
  /// Whether the app made the purchase for this user, by its account token.
  func names(_ user: UserID) -> Bool {
    let account = user.rawValue.lowercased()
    return !namesAnother(than: user) && purchases.contains { $0.appAccountToken == account }
  }
}
