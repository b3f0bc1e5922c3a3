internal import Entitlements
internal import struct FoundationEssentials.Date

/// Revalidation runs and their items.
struct RunTable: LedgerTable {
  let tables: LedgerTables

  /// Ended runs that are kept for lookup.
  static let runsKept: Int64 = 100

  func start(_ order: RunOrder, key: String?, at now: Date) throws -> RunStart {
    if let key, let run = try run(withKey: key) { return run.order == order ? .known(run) : .mismatch }
    if let run = try active() { return .known(run) }
    let window = try Self.window(of: order, at: now)
    let inserted = try first(
      """
      INSERT INTO run
        (idempotency_key, expiring_within, horizon, item_limit, state, started_at, due, done, changed, failed, held_back)
      VALUES (?, ?, ?, ?, 'running', ?, 0, 0, 0, 0, 0) RETURNING id
      """, key, Int64(order.expiringWithin / .milliseconds(1)), window.upperBound, order.limit, now, as: Int64.self)
    guard let id = inserted else { throw StoredForm.Unstorable() }
    // Two ranges, each of an index: what nobody has claimed is due soon after it is scheduled, and what is claimed may be
    // due much later.
    try execute(
      """
      INSERT INTO run_item (run_id, environment, original_transaction_id, attempts, due_at)
        SELECT CAST(? AS BIGINT), environment, original_transaction_id, 0, 0 FROM (
          SELECT environment, original_transaction_id, scheduled_at FROM purchase
          WHERE due_at BETWEEN ? AND ? AND attempts = 0 AND scheduled_at BETWEEN ? AND ?
          UNION ALL
          SELECT environment, original_transaction_id, scheduled_at FROM purchase
          WHERE attempts > 0 AND scheduled_at BETWEEN ? AND ?) AS scheduled
        ORDER BY scheduled_at, environment, original_transaction_id LIMIT ?
      """, id, window.lowerBound, window.upperBound + Self.spread, window.lowerBound, window.upperBound,
      window.lowerBound, window.upperBound, order.limit)
    try execute("UPDATE run SET due = ? WHERE id = ?", changesCount, id)
    try execute("DELETE FROM run WHERE id <= ? AND state <> 'running'", id - Self.runsKept)
    guard let run = try finish(RunID(id), at: now) else { throw StoredForm.Unstorable() }
    return .started(run)
  }

  func countDue(_ order: RunOrder, at now: Date) throws -> Int {
    let window = try Self.window(of: order, at: now)
    let due = try first(
      """
      SELECT
        (SELECT count(*) FROM purchase
         WHERE due_at BETWEEN ? AND ? AND attempts = 0 AND scheduled_at BETWEEN ? AND ?)
        + (SELECT count(*) FROM purchase WHERE attempts > 0 AND scheduled_at BETWEEN ? AND ?)
      """, window.lowerBound, window.upperBound + Self.spread, window.lowerBound, window.upperBound, window.lowerBound,
      window.upperBound, as: Int.self)
    return min(due ?? 0, order.limit)
  }

  private static let spread = Int64(RecheckSchedule.spread)

  /// The range of scheduled check times that a run takes.
  private static func window(of order: RunOrder, at now: Date) throws -> ClosedRange<Int64> {
    let floor = try StoredForm.milliseconds(now.advanced(by: .zero - RunOrder.longestOverdue))
    return floor...max(floor, try StoredForm.milliseconds(now.advanced(by: order.expiringWithin)))
  }

  func run(_ id: RunID) throws -> Run? {
    try first(
      """
      SELECT id, expiring_within, item_limit, state, finished_at, stop_reason, started_at, due, done, changed, failed,
        held_back
      FROM run WHERE id = ?
      """, id.rawValue, read: Self.run)
  }

  private func run(withKey key: String) throws -> Run? {
    try first("SELECT id FROM run WHERE idempotency_key = ?", key) { RunID(try $0.get(0)) }.flatMap(run)
  }

  func active() throws -> Run? {
    try first("SELECT id FROM run WHERE state = 'running'") { RunID(try $0.get(0)) }.flatMap(run)
  }

  private static func run(_ row: SQLRow) throws -> Run {
    var counts = RunCounts(due: try row.get(7))
    (counts.done, counts.changed) = (try row.get(8), try row.get(9))
    (counts.failed, counts.heldBack) = (try row.get(10), try row.get(11))
    return Run(
      id: RunID(try row.get(0)),
      order: RunOrder(expiringWithin: .milliseconds(try row.get(1, as: Int64.self)), limit: try row.get(2)),
      state: try state(try row.get(3), finishedAt: row.get(4), reason: row.get(5)), counts: counts,
      startedAt: try row.get(6))
  }

  private static func state(_ word: String, finishedAt: Date?, reason: RunStop?) throws -> Run.State {
    switch (word, finishedAt, reason) {
    case ("running", nil, nil): .running
    case ("finished", .some(let at), nil): .finished(at: at)
    case ("stopped", .some(let at), .some(let reason)): .stopped(reason, at: at)
    default: throw StoredForm.Unstorable()
    }
  }

  func hasItems(of run: RunID, dueAt now: Date) throws -> Bool {
    try exists("SELECT 1 FROM run_item WHERE run_id = ? AND due_at <= ? LIMIT 1", run.rawValue, now)
  }

  func claimItems(of run: RunID, dueAt now: Date, until lease: Date, limit: Int) throws -> RunClaim {
    let active = try first(
      "SELECT horizon, started_at FROM run WHERE id = ? AND state = 'running'", run.rawValue, as: (Int64, Int64).self)
    guard let (horizon, startedAt) = active else { return RunClaim(items: [], isExhausted: true) }
    let due = try all(
      """
      SELECT id, environment, original_transaction_id, attempts FROM run_item
      WHERE run_id = ? AND due_at <= ? ORDER BY due_at, id LIMIT ? /*pg: FOR UPDATE SKIP LOCKED */
      """, run.rawValue, now, max(0, limit), as: (Int64, SubscriptionKey, Int).self)
    let again = try StoredForm.milliseconds(now) + RecheckSchedule.delay(after: 0)
    var claim = RunClaim(items: [], isExhausted: due.count < limit)
    let unreadable = try tables.skippingUnreadable(due) { item, key, attempts in
      // Apple reported since: to the scheduler, to a caller, or in the receipt of another subscription.
      guard let purchase = try tables.purchases.purchase(key), let id = purchase.id, purchase.evaluatedAt <= startedAt,
        var schedule = purchase.schedule, schedule.scheduledAt <= horizon
      else {
        return try settleItem(item, of: run, .done(changed: false))
      }
      let receipt = try tables.purchases.receipt(of: purchase)
      try execute("UPDATE run_item SET due_at = ? WHERE id = ?", lease, item)
      // The scheduler's own check is postponed.
      if schedule.dueAt < again {
        schedule.dueAt = again
        schedule.attempts = max(schedule.attempts, 1)
        try tables.schedule.schedule(id, schedule)
      }
      claim.items.append(
        RunItem(id: item, run: run, key: key, owner: purchase.owner, receipt: receipt, attempts: attempts))
    }
    for (item, key, _) in unreadable {
      try settleItem(item, of: run, .failed)
      claim.unreadable.append(key)
    }
    return claim
  }

  /// Counts a subscription and removes it from the list: once, under concurrent calls too.
  func settleItem(_ id: Int64, of run: RunID, _ outcome: RunOutcome) throws {
    try execute("DELETE FROM run_item WHERE id = ?", id)
    guard changesCount == 1 else { return }
    switch outcome {
    case .done(let changed):
      try execute("UPDATE run SET done = done + 1, changed = changed + ? WHERE id = ?", changed, run.rawValue)
    case .failed: try execute("UPDATE run SET failed = failed + 1 WHERE id = ?", run.rawValue)
    case .heldBack: try execute("UPDATE run SET held_back = held_back + 1 WHERE id = ?", run.rawValue)
    }
  }

  func retry(_ item: RunItem, at due: Date, isCounted: Bool) throws {
    try execute("UPDATE run_item SET due_at = ?, attempts = attempts + ? WHERE id = ?", due, isCounted, item.id)
  }

  func giveBack(_ items: [RunItem]) throws {
    for item in items { try execute("UPDATE run_item SET due_at = 0 WHERE id = ?", item.id) }
  }

  func finish(_ id: RunID, at now: Date) throws -> Run? {
    try execute(
      """
      UPDATE run SET state = 'finished', finished_at = CASE WHEN started_at > ? THEN started_at ELSE ? END
      WHERE id = ? AND state = 'running' AND NOT EXISTS (SELECT 1 FROM run_item WHERE run_id = ?)
      """, now, now, id.rawValue, id.rawValue)
    return try run(id)
  }

  func stop(_ id: RunID, _ reason: RunStop, at now: Date) throws -> Run? {
    try execute(
      """
      UPDATE run SET state = 'stopped', stop_reason = ?, finished_at = CASE WHEN started_at > ? THEN started_at ELSE ? END
      WHERE id = ? AND state = 'running'
      """, reason, now, now, id.rawValue)
    // The remainder follows from the counts; a new run selects anew.
    if changesCount == 1 { try execute("DELETE FROM run_item WHERE run_id = ?", id.rawValue) }
    return try run(id)
  }
}

extension LedgerTables { var runs: RunTable { RunTable(tables: self) } }

extension RunStop: StoredWord {}
