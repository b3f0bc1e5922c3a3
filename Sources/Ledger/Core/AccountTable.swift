package import Entitlements
internal import struct FoundationEssentials.Date

/// The state of a user: one row, read and written as a whole.
struct Account {
  /// The user's ID as first given; the app's row may be found by it alone.
  let user: UserID
  /// Incremented with each verdict; zero before the first.
  var version: Int64 = 0
  /// The last event, and the last verdict among them.
  var newest: Int64?
  var verdict: Int64?
  /// The access that the last verdict gives.
  var access: Access?
  /// The version of the app's row.
  var rowVersion: Int64 = 0
  /// The IDs of the user's purchases.
  var purchases: [Int64] = []
  /// The user's grants and trials that are not over.
  var given: [GivenPeriod] = []
  /// Purchases that changed hands, which have no event yet. Not stored.
  var transfers: [Transferred] = []

  /// A purchase that came from another user, or went to one.
  struct Transferred: Hashable {
    var purchase: Int64
    var from: UserID
    var to: UserID
  }

  /// The part of a verdict that queries need.
  struct Access: Hashable {
    var tier: Tier
    var status: SubscriptionStatus
    var product: ProductID?
    var until: Date?
    var isForLife: Bool
  }

  init(of user: UserID) { self.user = user }
}

extension Account.Access {
  init(_ entitlement: Entitlement) {
    self.init(
      tier: entitlement.tier, status: entitlement.status,
      // Products of other stores, and the app itself, are left out: the catalog may not list their IDs.
      product: entitlement.source == .revenuecat || entitlement.reason == .originalPurchase
        ? nil : entitlement.productID,
      until: entitlement.accessUntil, isForLife: entitlement.reason == .lifetime)
  }
}

extension UserID {
  /// The ID by which the ledger finds a user: a UUID is the same in capitals.
  package var key: String { accountToken ?? rawValue }
}

/// The state of each user.
package struct AccountTable: LedgerTable {
  package let tables: LedgerTables

  /// The key of the user whom an ID means: of an anonymous customer who was joined to a user, that user's. Any other ID
  /// costs nothing.
  func key(of user: UserID) throws -> String {
    guard user.isAnonymous else { return user.key }
    return try first("SELECT joined_to FROM customer WHERE key = ? AND joined_to IS NOT NULL", user.key) ?? user.key
  }

  func account(of user: UserID) throws -> Account? { try account(withKey: key(of: user)) }

  /// The account of a user, or a new one under the name by which the user is to be known.
  func knownOrNewAccount(of user: UserID) throws -> Account {
    if let known = try account(of: user) { return known }
    return Account(of: user.accountToken == nil ? try name(of: user) : user.newName)
  }

  /// The IDs of a user's purchases at all stores.
  package func purchaseIDs(ofKey key: String) throws -> [Int64] { try account(withKey: key)?.purchases ?? [] }

  /// The columns that change, in the order of their values.
  private static let accountColumns = """
    version, newest, verdict, tier, status, product_id, access_until, is_for_life, row_version, purchases, given
    """
  private static let accountByKey = SQL("SELECT spelling, \(accountColumns) FROM account WHERE key = ?")
  private static let upsertAccount = SQL.upsert(
    "account", key: "key", first: "spelling, first_seen_at", "\(accountColumns), last_seen_at",
    to: SQL.orLater("account"))

  /// The account itself, whomever an anonymous ID means by now.
  func account(withKey key: String) throws -> Account? {
    try first(Self.accountByKey, key) { row in
      var account = Account(of: try row.get(0, as: UserID?.self) ?? UserID(key))
      account.version = try row.get(1)
      account.newest = try row.get(2)
      account.verdict = try row.get(3)
      if let tier: Tier = try row.get(4) {
        account.access = try Account.Access(
          tier: tier, status: row.get(5), product: row.get(6), until: row.get(7), isForLife: row.get(8))
      }
      account.rowVersion = try row.get(9)
      account.purchases = try StoredForm.integers(row.get(10))
      if let text: String = try row.get(11) { account.given = try StoredForm.decoded([GivenPeriod].self, text) }
      return account
    }
  }

  func save(_ account: Account, at now: Int64) throws {
    let (key, access) = (account.user.key, account.access)
    guard let newest = account.newest else { throw StoredForm.Unstorable() }
    changes.invalidate(account.user)
    try execute(
      Self.upsertAccount, key, account.user.rawValue == key ? nil : account.user, now, account.version, newest,
      account.verdict, access?.tier, access?.status, access?.product, access?.until, access?.isForLife ?? false,
      account.rowVersion, StoredForm.text(account.purchases),
      account.given.isEmpty ? nil : StoredForm.encoded(account.given), now)
  }

  /// The stored spelling of a user's ID, or for an unknown user a fixed one: the first spelling stays, as the app's row
  /// may be found by it alone.
  func name(of user: UserID) throws -> UserID {
    guard user.accountToken != nil else {
      let key = try key(of: user)
      return key == user.key ? user : try name(ofKey: key)
    }
    return try account(of: user)?.user ?? user.newName
  }

  /// As `name`, for a key from another table.
  func name(ofKey key: String) throws -> UserID {
    try first("SELECT coalesce(spelling, key) FROM account WHERE key = ?", key)
      ?? first("SELECT coalesce(spelling, key) FROM customer WHERE key = ?", key) ?? UserID(key)
  }

  /// Whether anything is stored about a user. Each query uses an index.
  func isKnown(_ user: UserID) throws -> Bool {
    try exists("SELECT 1 FROM account WHERE key = ?", user.key)
      || user.spellings.contains { try exists("SELECT 1 FROM pending_receipt WHERE user_id = ? LIMIT 1", $0) }
  }

  /// Whether a user ever came: something is stored about them, or they did something that counts among customers.
  func hasSeen(_ user: UserID) throws -> Bool {
    let user = try name(of: user)
    return try isKnown(user) || exists("SELECT 1 FROM user_progress WHERE user_id = ?", user.key)
  }

  // MARK: Verdicts

  func verdict(of user: UserID) throws -> Entitlement? { try account(of: user).flatMap(verdict) }

  func verdict(of account: Account) throws -> Entitlement? {
    guard let sequence = account.verdict else { return nil }
    guard let text: String = try first("SELECT entitlement FROM event WHERE sequence = ?", sequence) else {
      throw StoredForm.Unstorable()
    }
    return try StoredForm.value(Entitlement.self, text)
  }

  /// A user's verdict with all evidence; `nil` for a user without a verdict.
  func ledgerProfile(of user: UserID) throws -> LedgerProfile? { try account(of: user).flatMap(ledgerProfile) }

  private func ledgerProfile(of account: Account) throws -> LedgerProfile? {
    guard let entitlement = try verdict(of: account) else { return nil }
    return LedgerProfile(
      evidence: try tables.purchases.evidence(of: account), given: account.given, entitlement: entitlement,
      version: account.version, write: try tables.outbox.writeState(of: account.user), rowVersion: account.rowVersion)
  }

  func profiles(after user: UserID?, limit: Int) throws -> UserPage {
    let keys = try all(
      "SELECT key FROM account WHERE key > ? AND version > 0 ORDER BY key LIMIT ?", user?.key ?? "", max(0, limit),
      as: String.self)
    var page = UserPage(last: keys.count < limit ? nil : keys.last.map { UserID($0) })
    page.unreadable = try tables.skippingUnreadable(keys) { key in
      guard let account = try account(withKey: key), let profile = try ledgerProfile(of: account) else { return }
      page.users.append(UserProfile(user: account.user, profile: profile))
    }
    .map { UserID($0) }
    return page
  }

  /// The users whose recorded access ended before a moment, with a purchase due for a check since then, the longest
  /// overdue first.
  func usersOverdue(since moment: Date, limit: Int) throws -> [UserID] {
    let moment = try StoredForm.milliseconds(moment)
    return try all(
      """
      SELECT coalesce(account.spelling, account.key) FROM (
          SELECT user_id, scheduled_at FROM purchase WHERE due_at <= ? AND attempts = 0 AND scheduled_at <= ?
          UNION ALL
          SELECT user_id, scheduled_at FROM purchase WHERE attempts > 0 AND scheduled_at <= ?
        ) overdue JOIN account ON account.key = overdue.user_id
      WHERE account.status <> 'expired' AND account.access_until <= ?
      ORDER BY overdue.scheduled_at LIMIT ?
      """, moment + Int64(RecheckSchedule.spread), moment, moment, moment, max(0, limit))
  }

  /// The receipt behind the verdict on a user.
  func newestDigest(of account: Account) throws -> ReceiptDigest? {
    guard let verdict = account.verdict else { return nil }
    return try first("SELECT receipt_sha256 FROM event WHERE sequence = ?", verdict, as: ReceiptDigest?.self) ?? nil
  }

  // MARK: How many have access

  func accessGiven() throws -> [AccessCount] {
    try all(
      """
      SELECT tier, product_id, is_for_life, users FROM access_count WHERE users > 0
      ORDER BY tier, product_id, is_for_life
      """, into: AccessCount.init(tier:product:isForLife:users:))
  }

  /// The products of recorded verdicts whose end Apple did not name.
  ///
  /// - Parameter users: the most users without access that are read.
  func productsWithoutEnd(users: Int) throws -> Set<ProductID> {
    let verdicts = try all(
      """
      SELECT event.entitlement FROM account JOIN event ON event.sequence = account.verdict
      WHERE account.status = 'expired' LIMIT ?
      """, users
    ) { try StoredForm.value(Entitlement.self, $0.get(0)) }
    return Set(verdicts.filter(\.lacksEnd).compactMap(\.productID))
  }

  func count(_ former: Account.Access?, replacedBy access: Account.Access) throws {
    // There the counts are a view: rows that every replica changes would make each wait for the others.
    guard !connection.isShared else { return }
    let isSame =
      former?.countedProduct == access.countedProduct && former?.tier == access.tier
      && former?.isForLife == access.isForLife
    guard !isSame else { return }
    if let former, let product = former.countedProduct {
      try execute(
        "UPDATE access_count SET users = users - 1 WHERE tier = ? AND product_id = ? AND is_for_life = ?", former.tier,
        product, former.isForLife)
    }
    guard let product = access.countedProduct else { return }
    try execute(
      """
      INSERT INTO access_count (tier, product_id, is_for_life, users) VALUES (?, ?, ?, 1)
      ON CONFLICT (tier, product_id, is_for_life) DO UPDATE SET users = access_count.users + 1
      """, access.tier, product, access.isForLife)
  }
}

extension Account.Access {
  /// The product that gives access; `nil` without access.
  fileprivate var countedProduct: ProductID? { status == .expired ? nil : product }
}

extension UserID {
  /// The spelling for a user without an account: a UUID in one case throughout.
  fileprivate var newName: UserID {
    guard let uuid = accountToken, rawValue != uuid.uppercased() else { return self }
    return UserID(uuid)
  }

  /// The spellings under which a receipt may wait: a UUID in small letters and in capitals, any other ID as it is.
  var spellings: [String] {
    guard let uuid = accountToken else { return [rawValue] }
    let other = rawValue == uuid ? uuid.uppercased() : uuid
    // Some have no letters.
    return other == rawValue ? [rawValue] : [rawValue, other]
  }
}
