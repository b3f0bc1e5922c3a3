internal import Entitlements
internal import struct FoundationEssentials.Date
internal import GRDB

extension LedgerTables {
  // MARK: Updates of the app's own rows

  /// Notes that a user has a new verdict. What waits already goes on waiting, now with the new verdict.
  ///
  /// - Parameter evidenceAt: Apple's clock on what the verdict came of, where it is known.
  func enqueueUpdate(of user: UserID, evidenceAt: Int64?, recordedAt: Int64) throws {
    try execute(
      """
      INSERT INTO profile_update (user_id, version, state, waiting_since, attempts, due_at)
      VALUES (\(user.rawValue), \(max(1, evidenceAt ?? 1)), 'waiting', \(recordedAt), 0, 0)
      ON CONFLICT (user_id) DO UPDATE SET
        version = max(profile_update.version + 1, excluded.version),
        waiting_since = iif(state = 'waiting', waiting_since, excluded.waiting_since),
        attempts = 0, state = 'waiting', due_at = 0
      """)
  }

  func updateState(of user: UserID) throws -> ProfileWriteState {
    guard let row = try row("SELECT state FROM profile_update WHERE user_id = \(user.rawValue)") else {
      throw StoredForm.Unstorable()
    }
    guard let state = ProfileWriteState(rawValue: try row.decode(forColumn: "state")) else {
      throw StoredForm.Unstorable()
    }
    return state
  }

  func waitingUpdate(of user: UserID) throws -> WaitingUpdate? {
    try row(
      """
      SELECT profile_update.*, profile.entitlement FROM profile_update JOIN profile USING (user_id)
      WHERE user_id = \(user.rawValue) AND state = 'waiting'
      """
    ).map(Self.update)
  }

  func hasUpdates(dueAt now: Date) throws -> Bool {
    try row(
      """
      SELECT 1 FROM profile_update WHERE state = 'waiting' AND due_at <= \(try StoredForm.milliseconds(now)) LIMIT 1
      """) != nil
  }

  func claimUpdates(dueAt now: Date, until lease: Date, limit: Int) throws -> [WaitingUpdate] {
    let due = try rows(
      """
      SELECT profile_update.*, profile.entitlement FROM profile_update JOIN profile USING (user_id)
      WHERE state = 'waiting' AND due_at <= \(try StoredForm.milliseconds(now))
      ORDER BY due_at, waiting_since, user_id LIMIT \(max(0, limit))
      """
    ).map(Self.update)
    let lease = try StoredForm.milliseconds(lease)
    for update in due {
      try execute("UPDATE profile_update SET due_at = \(lease) WHERE user_id = \(update.user.rawValue)")
    }
    return due
  }

  func settleUpdate(of user: UserID, version: Int64, _ state: ProfileWriteState) throws {
    try execute(
      """
      UPDATE profile_update SET state = \(state.rawValue), attempts = 0, problem = NULL, problem_at = NULL
      WHERE user_id = \(user.rawValue) AND version = \(version) AND state = 'waiting'
      """)
  }

  func retryUpdate(of user: UserID, version: Int64, at due: Date, problem: String) throws {
    let due = try StoredForm.milliseconds(due)
    try execute(
      """
      UPDATE profile_update SET attempts = attempts + 1, due_at = \(due), problem = \(problem), problem_at = \(due)
      WHERE user_id = \(user.rawValue) AND version = \(version) AND state = 'waiting'
      """)
  }

  private static func update(_ row: Row) throws -> WaitingUpdate {
    WaitingUpdate(
      user: UserID(try row.decode(String.self, forColumn: "user_id")),
      version: try row.decode(forColumn: "version"),
      entitlement: try StoredForm.value(Entitlement.self, try row.decode(forColumn: "entitlement")),
      waitingSince: StoredForm.date(try row.decode(forColumn: "waiting_since")),
      attempts: try row.decode(forColumn: "attempts"))
  }

  // MARK: Rechecks

  /// Writes down when a subscription has to be asked about again; nothing where that is known already.
  func schedule(_ key: SubscriptionKey, at moment: Date?) throws {
    let environment = key.environment.rawValue
    let id = key.originalTransactionID.rawValue
    guard let moment else {
      return try execute(
        "DELETE FROM recheck WHERE environment = \(environment) AND original_transaction_id = \(id)")
    }
    let scheduledAt = try StoredForm.milliseconds(moment)
    let known = try row(
      """
      SELECT 1 FROM recheck
      WHERE environment = \(environment) AND original_transaction_id = \(id)
        AND scheduled_at = \(scheduledAt) AND attempts = 0
      """)
    guard known == nil else { return }
    try execute(
      """
      INSERT INTO recheck (environment, original_transaction_id, scheduled_at, due_at, attempts)
      VALUES (\(environment), \(id), \(scheduledAt), \(scheduledAt + RecheckSchedule.offset(of: key)), 0)
      ON CONFLICT (environment, original_transaction_id) DO UPDATE SET
        scheduled_at = excluded.scheduled_at, due_at = excluded.due_at, attempts = 0
      """)
  }

  func hasRechecks(dueAt now: Date) throws -> Bool {
    try row("SELECT 1 FROM recheck WHERE due_at <= \(try StoredForm.milliseconds(now)) LIMIT 1") != nil
  }

  func claimRechecks(dueAt now: Date, limit: Int) throws -> [Recheck] {
    let milliseconds = try StoredForm.milliseconds(now)
    let due = try rows(
      """
      SELECT recheck.*, subscription.user_id, receipt.base64, receipt.bundle_id
      FROM recheck JOIN subscription USING (environment, original_transaction_id)
        JOIN receipt ON receipt.id = subscription.receipt_id
      WHERE recheck.due_at <= \(milliseconds)
      ORDER BY recheck.due_at LIMIT \(max(0, limit))
      """
    ).map(Self.recheck)
    for recheck in due {
      let again = milliseconds + RecheckSchedule.delay(after: recheck.attempts - 1)
      try execute(
        """
        UPDATE recheck SET due_at = \(again), attempts = \(recheck.attempts)
        WHERE environment = \(recheck.key.environment.rawValue)
          AND original_transaction_id = \(recheck.key.originalTransactionID.rawValue)
        """)
    }
    return due
  }

  private static func recheck(_ row: Row) throws -> Recheck {
    let environment: String = try row.decode(forColumn: "environment")
    guard let environment = StoreEnvironment(rawValue: environment) else { throw StoredForm.Unstorable() }
    let owner = UserID(try row.decode(String.self, forColumn: "user_id"))
    let attempts: Int = try row.decode(forColumn: "attempts")
    return Recheck(
      key: SubscriptionKey(
        environment: environment,
        originalTransactionID: OriginalTransactionID(try row.decode(String.self, forColumn: "original_transaction_id"))),
      owner: owner,
      receipt: KeptReceipt(
        base64: try row.decode(forColumn: "base64"), environment: environment,
        bundleID: BundleID(try row.decode(String.self, forColumn: "bundle_id")), owner: owner),
      scheduledAt: StoredForm.date(try row.decode(forColumn: "scheduled_at")), attempts: attempts + 1)
  }

  // MARK: What waits

  /// Makes due what an earlier process had claimed or put off: only one process has the ledger, so nobody works on it. Also
  /// where that process had a wrong idea of the time.
  func release() throws {
    try execute("UPDATE profile_update SET due_at = 0 WHERE state = 'waiting' AND due_at <> 0")
    try execute("UPDATE pending_receipt SET due_at = 0 WHERE attempts > 0 AND due_at <> 0")
    try execute("UPDATE recheck SET due_at = scheduled_at WHERE attempts > 0 AND due_at <> scheduled_at")
  }

  func backlog(at now: Date) throws -> LedgerBacklog {
    let now = try StoredForm.milliseconds(now)
    var backlog = LedgerBacklog()
    if let row = try row(
      "SELECT count(*) AS waiting, min(waiting_since) AS oldest FROM profile_update WHERE state = 'waiting'")
    {
      backlog.updates = try row.decode(forColumn: "waiting")
      backlog.oldestUpdate = try row.decode(Int64?.self, forColumn: "oldest").map(StoredForm.date)
    }
    if let row = try row("SELECT count(*) AS missing FROM profile_update WHERE state = 'missing'") {
      backlog.missingProfiles = try row.decode(forColumn: "missing")
    }
    if backlog.updates > 0 {
      backlog.lastProblem = try row(
        """
        SELECT problem FROM profile_update WHERE state = 'waiting' AND problem IS NOT NULL
        ORDER BY problem_at DESC LIMIT 1
        """
      ).map { try $0.decode(forColumn: "problem") }
    }
    if let row = try row("SELECT count(*) AS waiting, min(received_at) AS oldest FROM pending_receipt") {
      backlog.pendingReceipts = try row.decode(forColumn: "waiting")
      backlog.oldestPendingReceipt = try row.decode(Int64?.self, forColumn: "oldest").map(StoredForm.date)
    }
    if let row = try row(
      "SELECT count(*) AS due, min(scheduled_at) AS oldest FROM recheck WHERE due_at <= \(now)")
    {
      backlog.rechecksDue = try row.decode(forColumn: "due")
      backlog.oldestRecheck = try row.decode(Int64?.self, forColumn: "oldest").map(StoredForm.date)
    }
    return backlog
  }

  // MARK: Memos

  func memo(_ name: String) throws -> String? {
    try row("SELECT text FROM memo WHERE name = \(name)").map { try $0.decode(forColumn: "text") }
  }

  func keepMemo(_ name: String, _ text: String?) throws {
    guard let text else { return try execute("DELETE FROM memo WHERE name = \(name)") }
    try execute(
      "INSERT INTO memo (name, text) VALUES (\(name), \(text)) ON CONFLICT (name) DO UPDATE SET text = excluded.text")
  }
}
