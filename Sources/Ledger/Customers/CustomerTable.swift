internal import Access
internal import Entitlements
internal import struct FoundationEssentials.Date

/// Customers of RevenueCat's SDKs: aliases and attributes.
struct CustomerTable: LedgerTable {
  let tables: LedgerTables

  /// The IDs that were joined to a user, of those that had an account before.
  func joinedAccounts(of user: UserID) throws -> [UserID] {
    try all(
      "SELECT customer.key FROM customer JOIN account ON account.key = customer.key WHERE joined_to = ?", user.key,
      as: UserID.self)
  }

  /// The customer with an ID; `nil` for one that is not known.
  func customer(_ id: UserID) throws -> Customer? {
    let user = try tables.accounts.name(of: id)
    let own = try first(
      "SELECT first_seen_at, last_seen_at FROM customer WHERE key = ?", user.key, as: (Date, Date).self)
    let joined = try first(
      """
      SELECT coalesce(spelling, key), first_seen_at FROM customer
      WHERE joined_to = ? AND substr(key, 1, 8) <> ? ORDER BY joined_to, first_seen_at LIMIT 1
      """, user.key, UserID.devicePrefix, as: (UserID, Date).self)
    let account = try first(
      "SELECT first_seen_at, last_seen_at FROM account WHERE key = ?", user.key, as: (Date, Date).self)
    let first = [own?.0, account?.0].compactMap(\.self).min()
    guard let firstSeenAt = [first, joined?.1].compactMap(\.self).min() else { return nil }
    return Customer(
      user: user, originalID: first == firstSeenAt ? user : joined?.0 ?? user, firstSeenAt: firstSeenAt,
      lastSeenAt: own?.1 ?? account?.1 ?? firstSeenAt)
  }

  /// Whether an SDK has named this ID.
  func isCustomer(_ user: UserID) throws -> Bool { try exists("SELECT 1 FROM customer WHERE key = ?", user.key) }

  private static let upsertCustomer = SQL.upsert(
    "customer", key: "key", first: "spelling, first_seen_at", "last_seen_at", to: SQL.orLater("customer"))

  /// Notes that an SDK named this ID now.
  func meet(_ user: UserID, at now: Date) throws {
    try execute(Self.upsertCustomer, user.key, user.rawValue == user.key ? nil : user, now, now)
    try tables.progress.record(UserProgress(seen: now.utcDay), of: user)
  }

  /// The tables whose rows name a customer, account or not, apart from what goes with the ID.
  private static let naming = [
    "trial", "device", "consumption", "feature_total", "user_time_zone", "near_limit", "limit_due", "recorded_refusal",
    "reported_event", "reported_bytes", "exposure", "exposure_due", "counted_exposure", "revenuecat_report",
  ]
  .map { "NOT EXISTS (SELECT 1 FROM \($0) WHERE \($0).user_id = customer.key)" }

  /// Whether nothing is kept under a customer's ID but what `forgetCustomer` deletes.
  private static let isUnnamed = """
    NOT EXISTS (SELECT 1 FROM account WHERE account.key = customer.key) AND \(naming.joined(separator: " AND "))
      AND NOT EXISTS (SELECT 1 FROM revenuecat_transfer WHERE from_user_id = customer.key)
      AND NOT EXISTS (SELECT 1 FROM revenuecat_transfer WHERE to_user_id = customer.key)
      AND NOT EXISTS (
        SELECT 1 FROM pending_receipt WHERE pending_receipt.user_id = coalesce(customer.spelling, customer.key))
    """

  private static let idleAliases = SQL(
    """
    SELECT key FROM customer WHERE joined_to = ? AND \(isUnnamed)
    ORDER BY joined_to DESC, first_seen_at DESC LIMIT 1000
    """)

  /// From now on the ID means a user; so do the IDs that meant it.
  func join(_ id: UserID, to user: UserID) throws {
    try execute("UPDATE customer SET joined_to = ? WHERE key = ? OR joined_to = ?", user.key, id.key, id.key)
    changes.invalidate(id)
    // Anybody may invent IDs and join them. An ID with records stays, as an erasure has to find them.
    let idle = try all(Self.idleAliases, user.key, as: String.self)
    for key in idle.dropFirst(Customer.mostAliases) { try forget(key) }
  }

  /// Whether a customer has nothing but the ID: it was named, and that is all.
  func isBare(_ id: UserID) throws -> Bool {
    try exists(Self.bareCustomers, id.key, id.key, Date.distantFuture, 1)
  }

  /// Customers with nothing but an ID who were last seen before a moment.
  func bareCustomers(seenBefore moment: Date, limit: Int) throws -> [String] {
    try all(Self.bareCustomers, "", "\u{10FFFF}", moment, limit)
  }

  private static let bareCustomers = SQL(
    """
    SELECT key FROM customer
    WHERE key >= ? AND key <= ? AND last_seen_at < ? AND joined_to IS NULL AND \(isUnnamed)
      AND NOT EXISTS (SELECT 1 FROM customer AS joined WHERE joined.joined_to = customer.key)
      AND NOT EXISTS (SELECT 1 FROM customer_attribute AS one WHERE one.key = customer.key)
    LIMIT ?
    """)

  func forget(_ key: String) throws {
    try execute("DELETE FROM customer_attribute WHERE key = ?", key)
    try execute("DELETE FROM user_progress WHERE user_id = ?", key)
    try execute("DELETE FROM customer WHERE key = ?", key)
    changes.invalidate(UserID(key))
  }

  /// Moves what is kept of an anonymous customer outside of the account to the user it turned out to be. Of two rows that
  /// cannot stand beside each other the user's own stays. Of two consumptions under one key both count, and the user's own
  /// keeps the key.
  func moveBelongings(of id: UserID, to user: UserID) throws {
    try execute("UPDATE provisional_grant SET user_id = ? WHERE user_id = ?", user, id)
    try execute(
      """
      UPDATE pending_receipt SET user_id = ? WHERE user_id = ? AND NOT EXISTS (
        SELECT 1 FROM pending_receipt AS own WHERE own.user_id = ? AND own.sha256 = pending_receipt.sha256)
      """, user, id, user)
    try execute("UPDATE revenuecat_report SET user_id = ? WHERE user_id = ?", user.key, id.key)
    try execute("UPDATE given_period SET user_id = ?, idempotency_key = NULL WHERE user_id = ?", user.key, id.key)
    try execute("UPDATE trial SET user_id = ? WHERE user_id = ?", user.key, id.key)
    try tables.marks.markTrials(of: user.key)
    try execute(
      """
      UPDATE device SET user_id = ? WHERE user_id = ? AND NOT EXISTS (
        SELECT 1 FROM device AS own WHERE own.user_id = ? AND own.device_id = device.device_id)
      """, user.key, id.key, user.key)
    try execute(
      """
      UPDATE consumption SET idempotency_key = NULL, request = NULL, answer = NULL
      WHERE user_id = ? AND EXISTS (
        SELECT 1 FROM consumption AS own WHERE own.user_id = ? AND own.feature = consumption.feature
          AND own.idempotency_key = consumption.idempotency_key)
      """, id.key, user.key)
    // Above the numbers of the user's own.
    try execute(
      """
      UPDATE consumption SET user_id = ?, number = number + coalesce((
        SELECT next_number FROM feature_total AS own WHERE own.user_id = ? AND own.feature = consumption.feature), 0)
      WHERE user_id = ?
      """, user.key, user.key, id.key)
    if changesCount > 0 { try tables.usage.sumUp(ofKey: user.key) }
    try execute(
      """
      INSERT INTO feature_total (user_id, feature, total, next_number, keys_until)
        SELECT CAST(? AS TEXT), feature, total, next_number, keys_until FROM feature_total AS former WHERE former.user_id = ?
      ON CONFLICT (user_id, feature) DO UPDATE SET
        total = feature_total.total + excluded.total, next_number = feature_total.next_number + excluded.next_number,
        keys_until = CASE WHEN feature_total.keys_until < excluded.keys_until THEN feature_total.keys_until ELSE excluded.keys_until END
      """, user.key, id.key)
    try execute("DELETE FROM feature_total WHERE user_id = ?", id.key)
    try execute(
      """
      INSERT INTO user_time_zone (user_id, name, changed_at)
        SELECT CAST(? AS TEXT), name, changed_at FROM user_time_zone AS former WHERE former.user_id = ?
      ON CONFLICT (user_id) DO NOTHING
      """, user.key, id.key)
    try execute("DELETE FROM user_time_zone WHERE user_id = ?", id.key)
    try tables.progress.leaveLimits(ofKey: id.key)
    try tables.marks.markLimits(of: user.key)
    if let progress = try tables.progress.take(ofKey: id.key) { try tables.progress.record(progress, of: user) }
    try tables.exposures.move(exposuresOf: id, to: user)
    try tables.changeEvents.move(reportsOf: id, to: user)
    changes.invalidate(usageOf: user)
    changes.invalidate(usageOf: id)
  }

  // MARK: Attributes

  func attributes(of user: UserID) throws -> [String: CustomerAttribute] {
    let rows = try all("SELECT name, value, updated_at FROM customer_attribute WHERE key = ?", user.key) {
      (try $0.get(0, as: String.self), CustomerAttribute(value: try $0.get(1), updatedAtMilliseconds: try $0.get(2)))
    }
    return Dictionary(rows) { first, _ in first }
  }

  private static let upsertAttribute = SQL.upsert("customer_attribute", key: "key, name", "value, updated_at")

  func save(_ attribute: CustomerAttribute, named name: String, of user: UserID) throws {
    try execute(Self.upsertAttribute, user.key, name, attribute.value, attribute.updatedAtMilliseconds)
  }
}

extension LedgerTables { var customers: CustomerTable { CustomerTable(tables: self) } }
