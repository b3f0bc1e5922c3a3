internal import Entitlements
internal import struct FoundationEssentials.Date

/// Notifications of Apple's that were received.
package struct NotificationTable: LedgerTable {
  package let tables: LedgerTables

  func isKnown(_ uuid: String) throws -> Bool { try exists("SELECT 1 FROM notification WHERE uuid = ?", uuid) }

  func append(
    _ entry: NotificationEntry, about key: SubscriptionKey?, outcome: NotificationLine.Outcome, user: UserID?
  ) throws {
    // The payload about an erased user would bring the name back.
    let isKept = entry.payload.utf8.count <= NotificationEntry.payloadLimit && user?.isErased != true
    let payload = isKept ? entry.payload : nil
    try execute(
      """
      INSERT INTO notification
        (uuid, type, subtype, environment, bundle_id, original_transaction_id, signed_at, received_at, outcome, user_id,
         payload)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
      """, entry.uuid, entry.type, entry.subtype, key?.environment ?? entry.environment, entry.bundleID,
      key?.originalTransactionID, entry.signedAt, entry.receivedAt, outcome, user, payload)
  }

  func notifications(of key: SubscriptionKey, limit: Int) throws -> [NotificationLine] {
    try all(
      """
      SELECT uuid, type, subtype, signed_at, received_at, outcome, user_id FROM notification
      WHERE environment = ? AND original_transaction_id = ?
      ORDER BY received_at DESC, rowid DESC LIMIT ?
      """, key, max(0, limit),
      into: NotificationLine.init(uuid:type:subtype:signedAt:receivedAt:outcome:user:))
  }

  func newest() throws -> Date? {
    guard
      try exists("SELECT 1 FROM notification WHERE uuid < 'revenuecat:' LIMIT 1")
        || exists("SELECT 1 FROM notification WHERE uuid >= 'revenuecat;' LIMIT 1")
    else { return nil }
    return try first(
      """
      SELECT received_at FROM notification WHERE received_at > 0 AND substr(uuid, 1, 11) <> 'revenuecat:'
      ORDER BY received_at DESC LIMIT 1
      """)
  }

  /// When the newest of RevenueCat's events was received. As above, the index by time is read from its end to the first
  /// row that fits, once it is known that there is one.
  func newestRevenueCatReport() throws -> Date? {
    guard try exists("SELECT 1 FROM notification WHERE uuid >= 'revenuecat:' AND uuid < 'revenuecat;' LIMIT 1") else {
      return nil
    }
    return try first(
      """
      SELECT received_at FROM notification WHERE received_at > 0 AND substr(uuid, 1, 11) = 'revenuecat:'
      ORDER BY received_at DESC LIMIT 1
      """)
  }

  func hasAny(before: Date) throws -> Bool {
    try exists("SELECT 1 FROM notification WHERE received_at < ? LIMIT 1", before)
      || exists("SELECT 1 FROM refused_notification WHERE received_at < ? LIMIT 1", before)
      || exists("SELECT 1 FROM consumption_request WHERE changed_at < ? AND due_at IS NULL LIMIT 1", before)
  }

  /// - Returns: how many accepted notifications were deleted.
  func prune(before: Date, limit: Int) throws -> Int {
    try tables.consumptionRequests.prune(before: before, limit: limit)
    try execute(
      """
      DELETE FROM refused_notification WHERE id IN
        (SELECT id FROM refused_notification WHERE received_at < ? ORDER BY received_at LIMIT ?)
      """, before, max(0, limit))
    try execute(
      """
      DELETE FROM notification WHERE uuid IN
        (SELECT uuid FROM notification WHERE received_at < ? ORDER BY received_at LIMIT ?)
      """, before, max(0, limit))
    return changesCount
  }

  func hasRefused(_ digest: ReceiptDigest) throws -> Bool {
    try exists("SELECT 1 FROM refused_notification WHERE sha256 = ?", digest)
  }

  /// The newest of one kind, without their payloads.
  func refused(isSigned: Bool, limit: Int) throws -> [RefusedNotification] {
    try all(
      "SELECT problem, received_at FROM refused_notification WHERE is_signed = ? ORDER BY id DESC LIMIT ?", isSigned,
      max(0, limit)
    ) { row in
      RefusedNotification(problem: try row.get(0), payload: "", isSigned: isSigned, receivedAt: try row.get(1))
    }
  }

  func keep(_ refused: RefusedNotification, payload: String, digest: ReceiptDigest) throws {
    guard try !hasRefused(digest) else { return }
    try execute(
      "INSERT INTO refused_notification (sha256, problem, payload, received_at, is_signed) VALUES (?, ?, ?, ?, ?)",
      digest, refused.problem, payload, refused.receivedAt, refused.isSigned)
    // Limits its kind; other kinds stay.
    try execute(
      """
      DELETE FROM refused_notification WHERE is_signed = ? AND id <=
        (SELECT id FROM refused_notification WHERE is_signed = ? ORDER BY id DESC LIMIT 1 OFFSET ?)
      """, refused.isSigned, refused.isSigned, RefusedNotification.limit)
  }
}

extension LedgerTables { package var notifications: NotificationTable { NotificationTable(tables: self) } }

extension NotificationLine.Outcome: StoredWord {}
