import struct FoundationEssentials.Date

/// The user account for which an app made a purchase.
///
/// An app may give each purchase a UUID of its user's account, and Apple repeats it in every answer.
///
/// https://developer.apple.com/documentation/appstorereceipts/app_account_token
extension SubscriptionEvidence {
  /// Whether the purchase names another user than this one.
  ///
  /// The newest row with an account token counts: another user of the app, under the same Apple account, may resume an
  /// expired subscription. A family-shared purchase names its buyer, and says nothing about the other members.
  ///
  /// - Parameter tokensAreUserIDs: whether every account token is the ID of a user, which a user ID that is no UUID can then
  ///   not be. Without it such a user ID cannot be compared.
  package func namesAnother(than user: UserID, tokensAreUserIDs: Bool = false) -> Bool {
    let named = accountsOfNewest
    guard let wanted = user.accountToken else { return tokensAreUserIDs && !named.isEmpty }
    return !named.isEmpty && !named.contains { $0.text == wanted }
  }

  /// Whether the app made the purchase for this user, by the account token of the newest row that has one.
  package func names(_ user: UserID) -> Bool {
    user.accountToken.map { named in accountsOfNewest.contains { $0.text == named } } ?? false
  }

  /// Whether the newest transaction is of an ownership that this version does not know.
  package var isOfUnknownOwnership: Bool {
    purchases.max { $0.begin < $1.begin }?.ownership == .unknown
  }

  /// The lower-case UUID of the user named by the purchase; `nil` without an account token.
  package var accountToken: String? { accountsOfNewest.map(\.text).min() }

  private var accountsOfNewest: [AppAccount] {
    let named = purchases.compactMap { row -> (time: Double, account: AppAccount)? in
      guard row.ownership == .purchased, let account = row.appAccountToken.flatMap(AppAccount.init) else { return nil }
      return (row.purchaseDate?.timeIntervalSince1970 ?? -.infinity, account)
    }
    guard let newest = named.map(\.time).max() else { return [] }
    return named.filter { $0.time == newest }.map(\.account)
  }
}
