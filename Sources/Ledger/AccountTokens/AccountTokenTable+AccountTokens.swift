internal import Entitlements
internal import struct FoundationEssentials.Date

extension AccountTokenTable {
  /// Puts a user who has to be told under another ID.
  func move(tokenOf former: SubscriptionKey, to key: SubscriptionKey) throws {
    try execute(
      """
      UPDATE account_token_due SET original_transaction_id = ?
      WHERE environment = ? AND original_transaction_id = ? AND NOT EXISTS (
        SELECT 1 FROM account_token_due AS other WHERE other.environment = ? AND other.original_transaction_id = ?)
      """, key.originalTransactionID, former, key)
    try forget(tokenOf: former)
  }

  func claim(in environment: StoreEnvironment?, dueAt now: Date, until lease: Date, limit: Int) throws
    -> [AccountTokenTask]
  {
    let due = try all(
      SQL(
        """
        SELECT environment, original_transaction_id, bundle_id, account_token, attempts FROM account_token_due
        WHERE \(ScheduleTable.isClaimable) ORDER BY due_at LIMIT ? /*pg: FOR UPDATE SKIP LOCKED */
        """), environment, now, now, max(0, limit), into: AccountTokenTask.init(key:bundleID:token:attempts:))
    for task in due {
      try execute(
        "UPDATE account_token_due SET claimed_until = ? WHERE environment = ? AND original_transaction_id = ?", lease,
        task.key)
    }
    return due
  }

  func settle(_ task: AccountTokenTask, dueAgainAt moment: Date?) throws {
    try execute(
      """
      UPDATE account_token_due SET claimed_until = NULL
      WHERE environment = ? AND original_transaction_id = ? AND account_token <> ?
      """, task.key, task.token)
    guard let moment else {
      return try execute(
        """
        DELETE FROM account_token_due
        WHERE environment = ? AND original_transaction_id = ? AND account_token = ?
        """, task.key, task.token)
    }
    try execute(
      """
      UPDATE account_token_due SET due_at = ?, claimed_until = NULL, attempts = ?
      WHERE environment = ? AND original_transaction_id = ? AND account_token = ?
      """, moment, task.attempts + 1, task.key, task.token)
  }
}
