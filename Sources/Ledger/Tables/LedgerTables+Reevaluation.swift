internal import Entitlements
internal import struct FoundationEssentials.Date
internal import GRDB

extension LedgerTables {
  func profiles(after user: UserID?, limit: Int) throws -> [UserProfile] {
    try rows(
      "SELECT user_id FROM profile WHERE user_id > \(user?.rawValue ?? "") ORDER BY user_id LIMIT \(max(0, limit))"
    ).compactMap { row in
      let user = UserID(try row.decode(String.self, forColumn: "user_id"))
      return try ledgerProfile(of: user).map { UserProfile(user: user, profile: $0) }
    }
  }

  func ledgerProfile(of user: UserID) throws -> LedgerProfile? {
    guard let (profile, write) = try standing(of: user) else { return nil }
    return LedgerProfile(
      evidence: try evidence(of: user), entitlement: profile.entitlement, version: profile.version, write: write)
  }

  func usersOverdue(since moment: Date, limit: Int) throws -> [UserID] {
    let moment = try StoredForm.milliseconds(moment)
    return try rows(
      """
      SELECT profile.user_id
      FROM recheck JOIN subscription USING (environment, original_transaction_id) JOIN profile USING (user_id)
      WHERE recheck.scheduled_at <= \(moment) AND profile.status <> 'expired' AND profile.access_until <= \(moment)
      ORDER BY recheck.scheduled_at LIMIT \(max(0, limit))
      """
    ).map { UserID(try $0.decode(String.self, forColumn: "user_id")) }
  }

  /// The receipt behind the verdict on a user.
  func newestDigest(of user: UserID) throws -> ReceiptDigest? {
    try row(
      "SELECT receipt_sha256 FROM history WHERE user_id = \(user.rawValue) ORDER BY version DESC LIMIT 1"
    ).map { ReceiptDigest(bytes: try $0.decode(forColumn: "receipt_sha256")) }
  }

  /// Reads every verdict.
  func accessGiven(endingAfter moment: Date) throws -> [AccessCount] {
    let moment = try StoredForm.milliseconds(moment)
    return try rows(
      """
      SELECT tier, json_extract(entitlement, '$.productID') AS product,
        json_extract(entitlement, '$.reason') = 'lifetime' AS is_for_life, count(*) AS users
      FROM profile
      WHERE status <> 'expired' AND (access_until IS NULL OR access_until > \(moment)) AND product IS NOT NULL
      GROUP BY tier, product, is_for_life ORDER BY tier, product, is_for_life
      """
    ).map { row in
      AccessCount(
        tier: Tier(try row.decode(String.self, forColumn: "tier")),
        product: ProductID(try row.decode(String.self, forColumn: "product")),
        isForLife: try row.decode(forColumn: "is_for_life"), users: try row.decode(forColumn: "users"))
    }
  }
}
