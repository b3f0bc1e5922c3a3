import struct FoundationEssentials.Date

/// Whom a purchase was made for, as the app said when it was made.
///
/// An app may give each purchase a UUID of its user's account, and Apple repeats it in every answer.
///
/// https://developer.apple.com/documentation/appstorereceipts/app_account_token
extension SubscriptionEvidence {
  /// Whether the purchase names another user than this one.
  ///
  /// Only where our user IDs are UUIDs can the two be compared. The newest row that names anybody counts: a subscription
  /// that ran out may be taken up again, under the same Apple account, by another user of the app. What a family shares
  /// names the one who bought it, and says nothing of the others.
  package func namesAnother(than user: UserID) -> Bool {
    guard let wanted = AppAccount(user.rawValue) else { return false }
    let named = accountsOfNewest
    return !named.isEmpty && !named.contains(wanted)
  }

  /// The UUID, in lower case, of the user whom the purchase names; `nil` where it names nobody.
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
  /// The user's ID as a purchase would name it: in lower case, where it is a UUID.
  package var accountToken: String? { AppAccount(rawValue)?.text }
}

/// A UUID that is somebody's, in lower case.
private struct AppAccount: Hashable {
  let text: String

  /// - Returns: `nil` for what is no UUID (RFC 9562, section 4), and for the nil UUID, which is nobody's.
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
