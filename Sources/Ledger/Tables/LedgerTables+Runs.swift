internal import Entitlements
internal import struct FoundationEssentials.Date

extension LedgerTables {
  // MARK: Runs

  /// Ended runs that are kept for lookup.
  static let runsKept: Int64 = 100

  func startRun(_ order: RunOrder, key: String?, at now: Date) throws -> RunStart {
    if let key, let run = try row("SELECT * FROM run WHERE idempotency_key = \(key)") {
      return .known(try Self.run(run))
    }
    if let run = try activeRun() { return .known(run) }
    let startedAt = try StoredForm.milliseconds(now)
    let window = try Self.window(of: order, at: now)
    let inserted = try row(
      """
      INSERT INTO run
        (idempotency_key, expiring_within, horizon, item_limit, state, started_at, due, done, changed, failed, held_back)
      VALUES
        (\(key), \(Int64(order.expiringWithin / .milliseconds(1))), \(window.upperBound), \(order.limit), 'running',
         \(startedAt), 0, 0, 0, 0, 0)
      RETURNING id
      """)
    guard let inserted else { throw StoredForm.Unstorable() }
    let id: Int64 = try inserted.decode(forColumn: "id")
    try execute(
      """
      INSERT INTO run_item (run_id, environment, original_transaction_id, attempts, due_at)
        SELECT \(id), environment, original_transaction_id, 0, 0 FROM recheck
        WHERE scheduled_at BETWEEN \(window.lowerBound) AND \(window.upperBound)
        ORDER BY scheduled_at, environment, original_transaction_id LIMIT \(order.limit)
      """)
    try execute("UPDATE run SET due = \(statements.changesCount) WHERE id = \(id)")
    try execute("DELETE FROM run WHERE id <= \(id - Self.runsKept) AND state <> 'running'")
    guard let run = try finishRun(RunID(id), at: now) else { throw StoredForm.Unstorable() }
    return .started(run)
  }

  func countDue(_ order: RunOrder, at now: Date) throws -> Int {
    let window = try Self.window(of: order, at: now)
    let counted = try row(
      """
      SELECT count(*) AS due FROM recheck
      WHERE scheduled_at BETWEEN \(window.lowerBound) AND \(window.upperBound)
      """)
    guard let counted else { throw StoredForm.Unstorable() }
    return min(try counted.decode(forColumn: "due"), order.limit)
  }

  /// The range of scheduled check times that a run takes.
  private static func window(of order: RunOrder, at now: Date) throws -> ClosedRange<Int64> {
    let floor = try StoredForm.milliseconds(now.advanced(by: .zero - RunOrder.longestOverdue))
    return floor...max(floor, try StoredForm.milliseconds(now.advanced(by: order.expiringWithin)))
  }

  func run(_ id: RunID) throws -> Run? {
    try row("SELECT * FROM run WHERE id = \(id.rawValue)").map(Self.run)
  }

  func activeRun() throws -> Run? {
    try row("SELECT * FROM run WHERE state = 'running'").map(Self.run)
  }

  func hasRunItems(of run: RunID, dueAt now: Date) throws -> Bool {
    try row(
      "SELECT 1 FROM run_item WHERE run_id = \(run.rawValue) AND due_at <= \(try StoredForm.milliseconds(now)) LIMIT 1"
    ) != nil
  }

  func claimRunItems(of run: RunID, dueAt now: Date, until lease: Date, limit: Int) throws -> RunClaim {
    guard let active = try row("SELECT horizon, started_at FROM run WHERE id = \(run.rawValue) AND state = 'running'")
    else { return RunClaim(items: [], isExhausted: true) }
    let horizon: Int64 = try active.decode(forColumn: "horizon")
    let startedAt: Int64 = try active.decode(forColumn: "started_at")
    let now = try StoredForm.milliseconds(now)
    let lease = try StoredForm.milliseconds(lease)
    let due = try rows(
      """
      SELECT run_item.*, subscription.user_id, subscription.judged_at, recheck.scheduled_at, recheck.due_at AS recheck_at,
             receipt.base64, receipt.bundle_id
      FROM run_item
        LEFT JOIN subscription USING (environment, original_transaction_id)
        LEFT JOIN recheck USING (environment, original_transaction_id)
        LEFT JOIN receipt ON receipt.id = subscription.receipt_id
      WHERE run_item.run_id = \(run.rawValue) AND run_item.due_at <= \(now)
      ORDER BY run_item.due_at, run_item.id LIMIT \(max(0, limit))
      """)
    var items: [RunItem] = []
    for row in due {
      let id: Int64 = try row.decode(forColumn: "id")
      // Apple reported since: to the scheduler, to a caller, or in the receipt of another subscription.
      guard let evaluatedAt = try row.decode(Int64?.self, forColumn: "judged_at"), evaluatedAt <= startedAt,
        let scheduledAt = try row.decode(Int64?.self, forColumn: "scheduled_at"), scheduledAt <= horizon
      else {
        try settleRunItem(id, of: run, .done(changed: false))
        continue
      }
      let item = try Self.item(row, of: run)
      try execute("UPDATE run_item SET due_at = \(lease) WHERE id = \(id)")
      // The scheduler's own check is postponed.
      let again = now + RecheckSchedule.delay(after: 0)
      if try row.decode(Int64.self, forColumn: "recheck_at") < again {
        try execute(
          """
          UPDATE recheck SET due_at = \(again), attempts = max(attempts, 1)
          WHERE environment = \(item.key.environment.rawValue)
            AND original_transaction_id = \(item.key.originalTransactionID.rawValue)
          """)
      }
      items.append(item)
    }
    return RunClaim(items: items, isExhausted: due.count < limit)
  }

  /// Counts a subscription and removes it from the list: once, under concurrent calls too.
  func settleRunItem(_ id: Int64, of run: RunID, _ outcome: RunOutcome) throws {
    try execute("DELETE FROM run_item WHERE id = \(id)")
    guard statements.changesCount == 1 else { return }
    switch outcome {
    case .done(let changed):
      try execute("UPDATE run SET done = done + 1, changed = changed + \(changed) WHERE id = \(run.rawValue)")
    case .failed: try execute("UPDATE run SET failed = failed + 1 WHERE id = \(run.rawValue)")
    case .heldBack: try execute("UPDATE run SET held_back = held_back + 1 WHERE id = \(run.rawValue)")
    }
  }

  /// Settles the subscription of a recorded answer, in the same transaction.
  func settle(_ item: RunItem?, after outcome: RecordOutcome) throws {
    guard let item, case .recorded(let recorded) = outcome else { return }
    try settleRunItem(item.id, of: item.run, .done(changed: recorded.changed))
  }

  func retry(_ item: RunItem, at due: Date, isCounted: Bool) throws {
    let due = try StoredForm.milliseconds(due)
    try execute("UPDATE run_item SET due_at = \(due), attempts = attempts + \(isCounted) WHERE id = \(item.id)")
  }

  func giveBack(_ items: [RunItem]) throws {
    for item in items { try execute("UPDATE run_item SET due_at = 0 WHERE id = \(item.id)") }
  }

  /// Releases the claims of an earlier process.
  func releaseRunItems() throws {
    try execute("UPDATE run_item SET due_at = 0 WHERE due_at <> 0")
  }

  func finishRun(_ id: RunID, at now: Date) throws -> Run? {
    try execute(
      """
      UPDATE run SET state = 'finished', finished_at = max(started_at, \(try StoredForm.milliseconds(now)))
      WHERE id = \(id.rawValue) AND state = 'running' AND NOT EXISTS (SELECT 1 FROM run_item WHERE run_id = \(id.rawValue))
      """)
    return try run(id)
  }

  func stopRun(_ id: RunID, _ reason: RunStop, at now: Date) throws -> Run? {
    try execute(
      """
      UPDATE run SET state = 'stopped', stop_reason = \(reason.rawValue),
        finished_at = max(started_at, \(try StoredForm.milliseconds(now)))
      WHERE id = \(id.rawValue) AND state = 'running'
      """)
    // The remainder follows from the counts; a new run selects anew.
    if statements.changesCount == 1 { try execute("DELETE FROM run_item WHERE run_id = \(id.rawValue)") }
    return try run(id)
  }

  private static func run(_ row: StoredRow) throws -> Run {
    let expiringWithin: Int64 = try row.decode(forColumn: "expiring_within")
    var counts = RunCounts(due: try row.decode(forColumn: "due"))
    counts.done = try row.decode(forColumn: "done")
    counts.changed = try row.decode(forColumn: "changed")
    counts.failed = try row.decode(forColumn: "failed")
    counts.heldBack = try row.decode(forColumn: "held_back")
    return Run(
      id: RunID(try row.decode(forColumn: "id")),
      order: RunOrder(expiringWithin: .milliseconds(expiringWithin), limit: try row.decode(forColumn: "item_limit")),
      state: try state(row), counts: counts, startedAt: StoredForm.date(try row.decode(forColumn: "started_at")))
  }

  private static func state(_ row: StoredRow) throws -> Run.State {
    let finishedAt = try row.decode(Int64?.self, forColumn: "finished_at").map(StoredForm.date)
    let reason = try row.decode(String?.self, forColumn: "stop_reason").flatMap(RunStop.init)
    return switch (try row.decode(String.self, forColumn: "state"), finishedAt, reason) {
    case ("running", nil, nil): .running
    case ("finished", .some(let at), nil): .finished(at: at)
    case ("stopped", .some(let at), .some(let reason)): .stopped(reason, at: at)
    default: throw StoredForm.Unstorable()
    }
  }

  private static func item(_ row: StoredRow, of run: RunID) throws -> RunItem {
    let environment: String = try row.decode(forColumn: "environment")
    guard let environment = StoreEnvironment(rawValue: environment) else { throw StoredForm.Unstorable() }
    let owner = UserID(try row.decode(String.self, forColumn: "user_id"))
    return RunItem(
      id: try row.decode(forColumn: "id"), run: run,
      key: SubscriptionKey(
        environment: environment,
        originalTransactionID: OriginalTransactionID(try row.decode(String.self, forColumn: "original_transaction_id"))),
      owner: owner,
      receipt: KeptReceipt(
        base64: try row.decode(forColumn: "base64"), environment: environment,
        bundleID: BundleID(try row.decode(String.self, forColumn: "bundle_id")), owner: owner),
      attempts: try row.decode(forColumn: "attempts"))
  }
}
