internal import Entitlements
internal import struct FoundationEssentials.Date

/// Rows to be written to the app's profile store.
struct OutboxTable: LedgerTable {
  let tables: LedgerTables

  /// Queues a user's new verdict for the app's row. An update that is already queued takes over the new verdict.
  ///
  /// - Parameter evidenceAt: the evidence time (Apple's clock) behind the verdict, if known.
  /// - Returns: since when the row is outdated.
  func enqueue(updateOf account: inout Account, evidenceAt: Int64?, recordedAt: Int64, dueAt: Int64) throws -> Date {
    if account.rowVersion == 0, let former = try tables.pseudonyms.formerSelves(of: account.user).last {
      // Somebody who was erased is back: the row may have the version of its reset, whose place the new verdict takes.
      account.rowVersion = try tables.accounts.account(withKey: former.key)?.rowVersion ?? 0
      try execute(
        "UPDATE outbox SET reset = NULL, reset_spelling = NULL WHERE key = ? AND reset IS NOT NULL", account.user.key)
    }
    // Nothing waits for a user whose row was never written.
    let waitingSince = account.rowVersion == 0 ? nil : try self.waitingSince(of: account)
    account.rowVersion = max(account.rowVersion + 1, evidenceAt ?? 1, 1)
    guard account.user.mayHaveRow else {
      // The app has no row for somebody who has not signed in, nor for a pseudonym.
      changes.invalidate(account.user)
      return StoredForm.date(recordedAt)
    }
    changes.invalidate(row: account.rowVersion, of: account.user)
    try execute(
      """
      INSERT INTO outbox (key, version, state, is_doubtful, waiting_since, attempts, due_at)
      VALUES (?, ?, 'waiting', 0, ?, 0, ?)
      ON CONFLICT (key) DO UPDATE SET
        version = excluded.version,
        waiting_since = CASE outbox.state WHEN 'waiting' THEN outbox.waiting_since ELSE excluded.waiting_since END,
        is_doubtful = CASE outbox.state WHEN 'confirming' THEN 1 ELSE outbox.is_doubtful END,
        attempts = 0, state = 'waiting',
        due_at = excluded.due_at
      """, account.user.key, account.rowVersion, recordedAt, dueAt)
    return waitingSince ?? StoredForm.date(recordedAt)
  }

  /// Since when a user's row is outdated; `nil` if it is not.
  func waitingSince(of account: Account) throws -> Date? {
    try first("SELECT waiting_since FROM outbox WHERE key = ? AND state = 'waiting'", account.user.key)
  }

  func writeState(of user: UserID) throws -> ProfileWriteState {
    try first("SELECT state FROM outbox WHERE key = ?", user.key).map(Self.state) ?? .written
  }

  private static func state(_ text: String) throws -> ProfileWriteState {
    switch text {
    case "waiting": .waiting
    case "confirming": .written
    case "missing": .missing
    default: throw StoredForm.Unstorable()
    }
  }

  func waitingUpdate(of user: UserID) throws -> WaitingUpdate? {
    try first(Self.updateByKey, user.key, read: Self.update)
  }

  private static let updateRow = """
    SELECT outbox.key, coalesce(account.spelling, outbox.reset_spelling), outbox.version,
      coalesce(outbox.reset, event.entitlement), waiting_since, attempts, state, outbox.reset
    FROM outbox LEFT JOIN account ON account.key = outbox.key LEFT JOIN event ON event.sequence = account.verdict
    """
  private static let updateByKey = SQL("\(updateRow) WHERE outbox.key = ?")
  private static let updatesDue = SQL(
    """
    \(updateRow) WHERE outbox.due_at <= ? ORDER BY outbox.due_at, outbox.waiting_since, outbox.key LIMIT ?
    /*pg: FOR UPDATE OF outbox SKIP LOCKED */
    """)

  private static func update(_ row: SQLRow) throws -> WaitingUpdate {
    WaitingUpdate(
      user: try row.get(1, as: UserID?.self) ?? row.get(0), version: try row.get(2),
      entitlement: try StoredForm.value(Entitlement.self, row.get(3)), waitingSince: try row.get(4),
      attempts: try row.get(5), state: try state(row.get(6)), isReset: try row.get(7, as: String?.self) != nil)
  }

  func hasAny(dueAt now: Date) throws -> Bool {
    try exists("SELECT 1 FROM outbox WHERE due_at <= ? LIMIT 1", now)
  }

  /// - Returns: `unreadable`: users whose updates are due and cannot be read. They are due again later, so that they hold
  ///   up no other.
  func claim(
    dueAt now: Date, until lease: Date, limit: Int
  ) throws -> (due: [WaitingUpdate], unreadable: [UserID]) {
    let rows = try all(Self.updatesDue, now, max(0, limit)) { row in
      (user: try row.get(0, as: UserID.self), update: Result { try Self.update(row) })
    }
    var due: [WaitingUpdate] = []
    let unreadable = try tables.skippingUnreadable(rows) { row in due.append(try row.update.get()) }.map(\.user)
    for update in due { try execute("UPDATE outbox SET due_at = ? WHERE key = ?", lease, update.user.key) }
    let later = try StoredForm.milliseconds(now) + RecheckSchedule.unreadable
    for user in unreadable {
      try execute(
        "UPDATE outbox SET due_at = ?, problem = 'unreadable', problem_at = ? WHERE key = ?", later, now, user.key)
    }
    return (due, unreadable)
  }

  /// - Returns: how many were made due.
  func release(putOffBeyond moment: Date, limit: Int) throws -> Int {
    try execute(
      """
      UPDATE outbox SET due_at = 0 WHERE key IN (
        SELECT key FROM outbox WHERE due_at > ? AND (state = 'missing' OR problem_at IS NOT NULL)
        ORDER BY due_at LIMIT ? /*pg: FOR UPDATE SKIP LOCKED */)
      """, moment, limit)
    return changesCount
  }

  func settle(updateOf user: UserID, version: Int64, isDoubtful: Bool, confirmingAt again: Date?) throws {
    changes.invalidate(user)
    if let again {
      try execute(
        """
        UPDATE outbox SET
          state = 'confirming', due_at = ?, is_doubtful = 0, attempts = 0, problem = NULL, problem_at = NULL
        WHERE key = ? AND version = ? AND (is_doubtful = 1 OR ? = 1)
        """, again, user.key, version, isDoubtful)
      guard changesCount == 0 else { return }
    }
    try execute("DELETE FROM outbox WHERE key = ? AND version = ?", user.key, version)
  }

  func miss(updateOf user: UserID, version: Int64, retryAt due: Date) throws {
    changes.invalidate(user)
    // Where there is no row, there is nothing to reset.
    try execute("DELETE FROM outbox WHERE key = ? AND version = ? AND reset IS NOT NULL", user.key, version)
    try execute(
      """
      UPDATE outbox SET
        attempts = CASE state WHEN 'missing' THEN attempts + 1 ELSE 1 END, state = 'missing', due_at = ?,
        problem = NULL, problem_at = NULL
      WHERE key = ? AND version = ?
      """, due, user.key, version)
  }

  func retry(updateOf user: UserID, version: Int64, at due: Date, problem: String, isDoubtful: Bool) throws {
    try execute(
      """
      UPDATE outbox SET attempts = attempts + 1, due_at = ?, problem = ?, problem_at = ?
      WHERE key = ? AND version = ?
      """, due, problem, due, user.key, version)
    // Applies to any version: an older write can overwrite a newer one.
    guard isDoubtful else { return }
    try execute("UPDATE outbox SET is_doubtful = 1 WHERE key = ?", user.key)
  }

  func raise(updateOf user: UserID, version: Int64, above floor: Int64) throws {
    guard floor <= WaitingUpdate.highestFloor else { return }
    let raised = max(version, floor + 1)
    try execute("UPDATE outbox SET version = ? WHERE key = ? AND version = ?", raised, user.key, version)
    guard changesCount > 0 else { return }
    changes.invalidate(row: raised, of: user)
    try execute("UPDATE account SET row_version = ? WHERE key = ? AND row_version < ?", raised, user.key, raised)
  }

  func giveBack(updatesOf users: [UserID], claimedUntil lease: Date) throws {
    for user in users { try execute("UPDATE outbox SET due_at = 0 WHERE key = ? AND due_at = ?", user.key, lease) }
  }
}
