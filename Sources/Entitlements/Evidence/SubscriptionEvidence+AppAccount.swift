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
  package func names(_ user: UserID) -> Bool { user.accountToken.map { named in accountsOfNewest.contains { $0.text == named } } ?? false }

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

/// A user's UUID, in lower case.
struct AppAccount: Hashable {
  let text: String

  /// - Returns: `nil` for text that is not a UUID (RFC 9562, section 4), and for the nil UUID, which names no user.
  init?(_ text: String) {
    var text = text
    guard let isLowercase = text.withUTF8(Self.isLowercase) else { return nil }
    self.text = isLowercase ? text : text.lowercased()
  }

  /// The places of the hyphens, a bit each: 8, 13, 18, 23.
  private static let hyphens: UInt64 = 0x84_2100

  /// Whether a UUID is in lower case; `nil` for other text. In one pass, as every row of the ledger is found by it.
  private static func isLowercase(_ text: UnsafeBufferPointer<UInt8>) -> Bool? {
    guard text.count == 36 else { return nil }
    var isLowercase = true
    var isNil = true
    for (place, byte) in text.enumerated() {
      let isHyphen = hyphens >> UInt64(place) & 1 == 1
      switch byte {
      case UInt8(ascii: "-"): guard isHyphen else { return nil }
      case _ where isHyphen: return nil
      case UInt8(ascii: "0"): break
      case UInt8(ascii: "1")...UInt8(ascii: "9"), UInt8(ascii: "a")...UInt8(ascii: "f"): isNil = false
      case UInt8(ascii: "A")...UInt8(ascii: "F"): (isNil, isLowercase) = (false, false)
      default: return nil
      }
    }
    return isNil ? nil : isLowercase
  }
}
