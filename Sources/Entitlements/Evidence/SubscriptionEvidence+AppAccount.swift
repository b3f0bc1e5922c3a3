import struct FoundationEssentials.Date

/// The user account for which an app made a purchase.
///
/// An app may give each purchase a UUID of its user's account, and Apple repeats it in every answer.
///
/// https://developer.apple.com/documentation/appstorereceipts/app_account_token
extension SubscriptionEvidence {
  /// Whether the purchase names another user than this one.
  ///
  /// The two can be compared only if our user IDs are UUIDs. The newest row with an account token counts: another user
  /// of the app, under the same Apple account, may resume an expired subscription. A family-shared purchase names its
  /// buyer, and says nothing about the other members.
  package func namesAnother(than user: UserID) -> Bool {
    guard let wanted = AppAccount(user.rawValue) else { return false }
    let named = accountsOfNewest
    return !named.isEmpty && !named.contains(wanted)
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

extension UserID {
  /// The user ID as a purchase would name it: in lower case, if it is a UUID.
  package var accountToken: String? { AppAccount(rawValue)?.text }
}

/// A user's UUID, in lower case.
private struct AppAccount: Hashable {
  let text: String

  /// - Returns: `nil` for text that is not a UUID (RFC 9562, section 4), and for the nil UUID, which names no user.
  init?(_ text: String) {
    guard text.utf8.count == 36 else { return nil }
    let text = text.lowercased()
    let groups = text.utf8.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
    guard groups.map(\.count) == [8, 4, 4, 4, 12], groups.joined().allSatisfy(Self.isHexadecimal),
      groups.joined().contains(where: { $0 != UInt8(ascii: "0") })
    else { return nil }
    self.text = text
  }

  private static func isHexadecimal(_ byte: UInt8) -> Bool {
    (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte) || (UInt8(ascii: "a")...UInt8(ascii: "f")).contains(byte)
  }
}
