internal import Entitlements
internal import struct FoundationEssentials.Date

extension LedgerTables {
  // MARK: Updates of the app's own rows

  /// Queues a user's new verdict in the outbox. An update that is already queued takes over the new verdict.
  ///
  /// - Parameter evidenceAt: the evidence time (Apple's clock) behind the verdict, if known.
  func enqueueUpdate(of user: UserID, evidenceAt: Int64?, recordedAt: Int64, dueAt: Int64) throws {
    try execute(
      """
      INSERT INTO profile_update (user_id, version, state, is_doubtful, waiting_since, attempts, due_at)
      VALUES (\(user.rawValue), \(max(1, evidenceAt ?? 1)), 'waiting', 0, \(recordedAt), 0, \(dueAt))
      ON CONFLICT (user_id) DO UPDATE SET
        version = max(profile_update.version + 1, excluded.version),
        waiting_since = iif(state = 'waiting', waiting_since, excluded.waiting_since),
        is_doubtful = max(is_doubtful, state = 'confirming'), attempts = 0, state = 'waiting',
        due_at = excluded.due_at
      """)
  }

  func updateState(of user: UserID) throws -> ProfileWriteState {
    guard let row = try row("SELECT state FROM profile_update WHERE user_id = \(user.rawValue)") else {
      throw StoredForm.Unstorable()
    }
    return try Self.state(row)
  }

  static func state(_ row: StoredRow) throws -> ProfileWriteState {
    switch try row.decode(String.self, forColumn: "state") {
    case "waiting": .waiting
    case "confirming", "written": .written
    case "missing": .missing
    default: throw StoredForm.Unstorable()
    }
  }

  func waitingUpdate(of user: UserID) throws -> WaitingUpdate? {
    try row(
      """
      SELECT profile_update.*, profile.entitlement FROM profile_update JOIN profile USING (user_id)
      WHERE user_id = \(user.rawValue) AND state <> 'written'
      """
    ).map(Self.update)
  }

  func hasUpdates(dueAt now: Date) throws -> Bool {
    try row(
      """
      SELECT 1 FROM profile_update WHERE state <> 'written' AND due_at <= \(try StoredForm.milliseconds(now)) LIMIT 1
      """) != nil
  }

  func claimUpdates(dueAt now: Date, until lease: Date, limit: Int) throws -> [WaitingUpdate] {
    let due = try rows(
      """
      SELECT profile_update.*, profile.entitlement FROM profile_update JOIN profile USING (user_id)
      WHERE state <> 'written' AND due_at <= \(try StoredForm.milliseconds(now))
      ORDER BY due_at, waiting_since, user_id LIMIT \(max(0, limit))
      """
    ).map(Self.update)
    let lease = try StoredForm.milliseconds(lease)
    for update in due {
      try execute("UPDATE profile_update SET due_at = \(lease) WHERE user_id = \(update.user.rawValue)")
    }
    return due
  }

  func settleUpdate(of user: UserID, version: Int64, isDoubtful: Bool, confirmingAt again: Date?) throws {
    let due = try again.map(StoredForm.milliseconds) ?? 0
    try execute(
      """
      UPDATE profile_update SET
        state = iif((is_doubtful OR \(isDoubtful)) AND \(again != nil), 'confirming', 'written'), due_at = \(due), is_doubtful = 0,
        attempts = 0, problem = NULL, problem_at = NULL
      WHERE user_id = \(user.rawValue) AND version = \(version) AND state <> 'written'
      """)
  }

  func missUpdate(of user: UserID, version: Int64, retryAt due: Date) throws {
    let due = try StoredForm.milliseconds(due)
    try execute(
      """
      UPDATE profile_update SET
        attempts = iif(state = 'missing', attempts + 1, 1), state = 'missing', due_at = \(due),
        problem = NULL, problem_at = NULL
      WHERE user_id = \(user.rawValue) AND version = \(version) AND state <> 'written'
      """)
  }

  func retryUpdate(of user: UserID, version: Int64, at due: Date, problem: String, isDoubtful: Bool) throws {
    let due = try StoredForm.milliseconds(due)
    try execute(
      """
      UPDATE profile_update SET attempts = attempts + 1, due_at = \(due), problem = \(problem), problem_at = \(due)
      WHERE user_id = \(user.rawValue) AND version = \(version) AND state <> 'written'
      """)
    // Applies to any version: an older write can overwrite a newer one.
    guard isDoubtful else { return }
    try execute("UPDATE profile_update SET is_doubtful = 1 WHERE user_id = \(user.rawValue) AND state <> 'written'")
  }

  func raiseUpdate(of user: UserID, version: Int64, above floor: Int64) throws {
    guard floor <= WaitingUpdate.highestFloor else { return }
    try execute(
      """
      UPDATE profile_update SET version = max(version, \(floor) + 1)
      WHERE user_id = \(user.rawValue) AND version = \(version) AND state <> 'written'
      """)
  }

  func returnUpdates(of users: [UserID], claimedUntil lease: Date) throws {
    let lease = try StoredForm.milliseconds(lease)
    for user in users {
      try execute(
        """
        UPDATE profile_update SET due_at = 0
        WHERE user_id = \(user.rawValue) AND due_at = \(lease) AND state <> 'written'
        """)
    }
  }

  private static func update(_ row: StoredRow) throws -> WaitingUpdate {
    WaitingUpdate(
      user: UserID(try row.decode(String.self, forColumn: "user_id")),
      version: try row.decode(forColumn: "version"),
      entitlement: try StoredForm.value(Entitlement.self, try row.decode(forColumn: "entitlement")),
      waitingSince: StoredForm.date(try row.decode(forColumn: "waiting_since")),
      attempts: try row.decode(forColumn: "attempts"), state: try state(row))
  }

  // MARK: Rechecks

  /// Schedules the next check of a subscription; writes nothing if it is already scheduled for that moment.
  ///
  /// An answer that repeats the scheduled moment brought nothing new, and the delays between claims keep growing: if
  /// our clock is ahead of Apple's, a subscription is claimed before Apple reports its end, and would be again and
  /// again. Delays set by a wrong clock are discarded.
  ///
  /// - Parameter now: the time of the answer.
  func schedule(_ key: SubscriptionKey, at moment: Date?, asOf now: Date) throws {
    let environment = key.environment.rawValue
    let id = key.originalTransactionID.rawValue
    guard let moment else {
      return try execute(
        "DELETE FROM recheck WHERE environment = \(environment) AND original_transaction_id = \(id)")
    }
    let scheduledAt = try StoredForm.milliseconds(moment)
    var dueAt = scheduledAt + RecheckSchedule.offset(of: key)
    let known = try row(
      """
      SELECT due_at, attempts FROM recheck
      WHERE environment = \(environment) AND original_transaction_id = \(id) AND scheduled_at = \(scheduledAt)
      """)
    if let known {
      let attempts: Int = try known.decode(forColumn: "attempts")
      guard attempts > 0 else { return }
      dueAt = max(dueAt, try StoredForm.milliseconds(now) + RecheckSchedule.delay(after: attempts - 1))
      guard try known.decode(Int64.self, forColumn: "due_at") > dueAt else { return }
      return try execute(
        """
        UPDATE recheck SET due_at = \(dueAt)
        WHERE environment = \(environment) AND original_transaction_id = \(id)
        """)
    }
    try execute(
      """
      INSERT INTO recheck (environment, original_transaction_id, scheduled_at, due_at, attempts)
      VALUES (\(environment), \(id), \(scheduledAt), \(dueAt), 0)
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

  private static func recheck(_ row: StoredRow) throws -> Recheck {
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

  /// Makes claimed and postponed work due: claims of an earlier process (the lock guarantees that it has ended), or
  /// delays set by a wrong clock.
  func release() throws {
    try execute("UPDATE profile_update SET due_at = 0 WHERE state <> 'written' AND due_at <> 0")
    try execute("UPDATE pending_receipt SET due_at = \(Self.longAgo) WHERE due_at <> \(Self.longAgo)")
    try execute("UPDATE recheck SET due_at = scheduled_at WHERE attempts > 0 AND due_at <> scheduled_at")
    try releaseRunItems()
  }

  /// A moment of 1970 with as many bytes as one of today: a row that keeps its size is changed in place; any other is
  /// rewritten with its whole receipt.
  private static let longAgo: Int64 = 1 << 31

  func backlog(at now: Date) throws -> LedgerBacklog {
    let now = try StoredForm.milliseconds(now)
    var backlog = LedgerBacklog()
    // One index covers all unwritten updates, and serves all of these counts.
    if let row = try row(
      """
      SELECT count(*) FILTER (WHERE state = 'waiting') AS waiting, count(*) FILTER (WHERE state = 'missing') AS missing,
        min(waiting_since) FILTER (WHERE state = 'waiting') AS oldest
      FROM profile_update WHERE state <> 'written'
      """)
    {
      backlog.updates = try row.decode(forColumn: "waiting")
      backlog.oldestUpdate = try row.decode(Int64?.self, forColumn: "oldest").map(StoredForm.date)
      backlog.missingProfiles = try row.decode(forColumn: "missing")
    }
    if backlog.updates > 0 {
      backlog.lastProblem = try row(
        """
        SELECT problem FROM profile_update WHERE user_id = (
          SELECT user_id FROM profile_update
          WHERE state <> 'written' AND state = 'waiting' AND problem_at IS NOT NULL ORDER BY problem_at DESC LIMIT 1)
        """
      ).map { try $0.decode(forColumn: "problem") }
    }
    if let row = try row("SELECT count(*) AS waiting FROM pending_receipt") {
      backlog.pendingReceipts = try row.decode(forColumn: "waiting")
    }
    // Ordered by ID, the order of arrival: a scan of the rows would read every receipt.
    backlog.oldestPendingReceipt = try row("SELECT received_at FROM pending_receipt ORDER BY id LIMIT 1")
      .map { StoredForm.date(try $0.decode(forColumn: "received_at")) }
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
