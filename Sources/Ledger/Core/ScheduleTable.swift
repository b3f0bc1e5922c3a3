internal import Entitlements
internal import struct FoundationEssentials.Date

extension PurchaseTable.Schedule {
  /// The schedule after an answer that asks for a check at a moment.
  ///
  /// An answer that repeats the scheduled moment brought nothing new, and the delays between claims keep growing: if
  /// our clock is ahead of Apple's, a subscription is claimed before Apple reports its end, and would be again and
  /// again. Delays set by a wrong clock are discarded.
  ///
  /// - Parameter now: the time of the answer.
  static func next(after former: Self?, of key: SubscriptionKey, at moment: Date?, asOf now: Date) throws -> Self? {
    guard let moment else { return nil }
    let scheduledAt = try StoredForm.milliseconds(moment)
    let dueAt = scheduledAt + RecheckSchedule.offset(of: key)
    guard var former, former.scheduledAt == scheduledAt else { return Self(scheduledAt: scheduledAt, dueAt: dueAt) }
    if former.attempts > 0 {
      former.dueAt = min(
        former.dueAt,
        max(dueAt, try StoredForm.milliseconds(now) + RecheckSchedule.delay(after: former.attempts - 1)))
    }
    return former
  }
}

/// When each purchase is checked next.
struct ScheduleTable: LedgerTable {
  let tables: LedgerTables

  /// The condition of rows that are due and not claimed, or whose claim is over. Its values: the store environment, or NULL
  /// for any, and the present moment twice.
  static let isClaimable = """
    environment = coalesce(?, environment) AND due_at <= ? AND (claimed_until IS NULL OR claimed_until <= ?)
    """

  func hasClaimable(in table: String, of environment: StoreEnvironment?, at now: Date) throws -> Bool {
    try exists(SQL("SELECT 1 FROM \(table) WHERE \(Self.isClaimable) LIMIT 1"), environment, now, now)
  }

  // MARK: Rechecks

  func schedule(_ id: Int64, _ schedule: PurchaseTable.Schedule?) throws {
    try execute(
      "UPDATE purchase SET scheduled_at = ?, due_at = ?, attempts = ? WHERE id = ?", schedule?.scheduledAt,
      schedule?.dueAt, schedule?.attempts ?? 0, id)
  }

  func hasRechecks(dueAt now: Date) throws -> Bool {
    try exists("SELECT 1 FROM purchase WHERE due_at <= ? LIMIT 1", now)
  }

  /// - Returns: `unreadable`: purchases that are due and cannot be read. They are due again later, so that they hold up
  ///   no other.
  func claimRechecks(dueAt now: Date, limit: Int) throws -> (due: [Recheck], unreadable: [Int64]) {
    let due = try all(
      "SELECT id FROM purchase WHERE due_at <= ? ORDER BY due_at LIMIT ? /*pg: FOR UPDATE SKIP LOCKED */", now,
      max(0, limit), as: Int64.self)
    var claimed: [Recheck] = []
    let unreadable = try tables.skippingUnreadable(due) { id in
      if let recheck = try claimRecheck(id, at: now) { claimed.append(recheck) }
    }
    let later = try StoredForm.milliseconds(now) + RecheckSchedule.unreadable
    // An attempt, as it is put off: `release` makes it due again.
    for id in unreadable {
      try execute(
        "UPDATE purchase SET due_at = ?, attempts = CASE WHEN attempts = 0 THEN 1 ELSE attempts END WHERE id = ?",
        later, id)
    }
    return (claimed, unreadable)
  }

  private func claimRecheck(_ id: Int64, at now: Date) throws -> Recheck? {
    let purchase = try tables.purchases.purchase(id: id)
    let receipt = try tables.purchases.receipt(of: purchase)
    guard var schedule = purchase.schedule else { return nil }
    let dueAt = StoredForm.date(schedule.dueAt)
    schedule.attempts += 1
    schedule.dueAt = try StoredForm.milliseconds(now) + RecheckSchedule.delay(after: schedule.attempts - 1)
    try self.schedule(id, schedule)
    return Recheck(
      key: purchase.evidence.key, owner: purchase.owner, receipt: receipt,
      scheduledAt: StoredForm.date(schedule.scheduledAt), dueAt: dueAt, attempts: schedule.attempts,
      dueAgainAt: StoredForm.date(schedule.dueAt))
  }

  /// Undoes a claim, unless an answer has come since.
  func giveBack(_ recheck: Recheck) throws {
    try reschedule(recheck, dueAt: StoredForm.milliseconds(recheck.dueAt), attempts: recheck.attempts - 1)
  }

  /// As if it were the first claim, for one that Apple's absence left without an answer. One without attempts would be due
  /// at its own time.
  func retrySoon(_ recheck: Recheck, at now: Date) throws {
    let dueAt = try StoredForm.milliseconds(now) + RecheckSchedule.delay(after: 0)
    try reschedule(recheck, dueAt: dueAt, attempts: max(1, recheck.attempts - 1))
  }

  /// Makes a claimed purchase due earlier than its claim does, unless an answer has come since.
  func bringForward(_ recheck: Recheck, to moment: Date) throws {
    try execute(
      """
      UPDATE purchase SET due_at = ?
      WHERE environment = ? AND original_transaction_id = ? AND scheduled_at = ? AND attempts = ? AND due_at > ?
      """, moment, recheck.key, recheck.scheduledAt, recheck.attempts, moment)
  }

  private func reschedule(_ recheck: Recheck, dueAt: Int64, attempts: Int) throws {
    try execute(
      """
      UPDATE purchase SET due_at = ?, attempts = ?
      WHERE environment = ? AND original_transaction_id = ? AND scheduled_at = ? AND attempts = ?
      """, dueAt, attempts, recheck.key, recheck.scheduledAt, recheck.attempts)
  }

  /// Makes the purchases under an ID due now. A claimed one is due since its scheduled time, from which `due_at` follows
  /// wherever there are no attempts.
  /// - Returns: their number: one per store.
  func recheckSoon(_ id: OriginalTransactionID, at now: Int64) throws -> Int {
    try StoreEnvironment.allCases.reduce(0) { count, environment in
      let key = SubscriptionKey(environment: environment, originalTransactionID: id)
      try execute(
        """
        UPDATE purchase SET
          scheduled_at = CASE WHEN scheduled_at < ? THEN scheduled_at ELSE ? END,
          due_at = CASE
            WHEN attempts > 0 AND scheduled_at < ? THEN scheduled_at
            WHEN attempts = 0 AND due_at < ? THEN due_at
            ELSE ? END,
          attempts = 0
        WHERE environment = ? AND original_transaction_id = ?
        """, now, now, now, now, now, tables.purchases.successor(of: key) ?? key)
      return count + changesCount
    }
  }

  /// Purchases without a scheduled check, in the order of their IDs.
  /// - Parameter id: where to continue.
  func unscheduled(after id: Int64, limit: Int) throws -> [Int64] {
    try all(
      "SELECT id FROM purchase WHERE due_at IS NULL AND id > ? ORDER BY id LIMIT ?", id, max(1, limit), as: Int64.self)
  }
}
