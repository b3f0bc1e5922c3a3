internal import Entitlements
internal import struct FoundationEssentials.Date

extension ChangeEventTable {
  // MARK: Events for others

  static func changeEvents(where condition: String) -> SQL {
    SQL(
      """
      SELECT change.sequence, change.type, change.user_id,
        (SELECT coalesce(spelling, key) FROM account WHERE key = change.user_id), change.at, change.recorded_at, change.data,
        verdict.entitlement, former.entitlement, change.purchased_at, change.sale
      FROM change_event AS change
        LEFT JOIN event AS verdict ON verdict.sequence = change.verdict
        LEFT JOIN event AS former ON former.sequence = change.former
      WHERE change.sequence > ? AND \(condition)
      """)
  }

  private static let eventsAfter = changeEvents(where: "change.type <> 'user.erased' ORDER BY change.sequence LIMIT ?")
  private static let shownEventsAfter = changeEvents(
    where: """
      change.type <> 'user.erased' AND change.type <> 'apple.notification' ORDER BY change.sequence LIMIT ?
      """)
  private static let eventsOfUser = changeEvents(
    where: "change.sequence <= ? AND change.user_id = ? ORDER BY change.sequence")

  /// The events after a place, in their order. Those of the type `user.erased` are nobody's any more: see `erase`.
  ///
  /// - Parameter shown: whether those are left out that only forward a notification.
  func events(after sequence: Int64, limit: Int, shown: Bool = false) throws -> [ChangeEvent] {
    try all(shown ? Self.shownEventsAfter : Self.eventsAfter, sequence, max(0, limit), read: Self.changeEvent)
  }

  /// The events of an account between two places.
  /// - Throws: `StoredForm.Unstorable` where one cannot be read.
  func events(after sequence: Int64, through last: Int64, of key: String) throws -> [ChangeEvent] {
    let events = try all(Self.eventsOfUser, sequence, last, key, read: Self.changeEvent)
    guard !events.contains(where: \.isUnreadable) else { throw StoredForm.Unstorable() }
    return events
  }

  /// One that cannot be read has its place, type and user all the same, so that it holds up no other.
  static func changeEvent(_ row: SQLRow) throws -> ChangeEvent {
    var event = ChangeEvent(
      sequence: try row.get(0), type: try row.get(1), user: try row.get(3, as: UserID?.self) ?? row.get(2),
      at: try row.get(4), recordedAt: try row.get(5), detail: .init())
    do { try readFacts(of: &event, row) } catch { event.isUnreadable = true }
    return event
  }

  private static func readFacts(of event: inout ChangeEvent, _ row: SQLRow) throws {
    func entitlement(_ column: Int) throws -> Entitlement? {
      try row.get(column, as: String?.self).map { try StoredForm.value(Entitlement.self, $0) }
    }
    event.entitlement = try entitlement(7)
    event.former = try entitlement(8)
    if let detail = try row.get(6, as: String?.self) {
      event.detail = try StoredForm.decoded(ChangeEvent.Detail.self, detail)
    }
    event.purchasedAt = try row.get(9)
    event.sale = try row.get(10, as: String?.self).flatMap { try StoredForm.sale($0) }
  }

  /// The number of the newest event; zero without one.
  func newest() throws -> Int64 {
    try first("SELECT sequence FROM change_event WHERE sequence > 0 ORDER BY sequence DESC LIMIT 1")
      ?? 0
  }

  /// Milliseconds by which an event may be recorded before the one of a lower number: the clocks of replicas differ, and a
  /// transaction is run again.
  private static let disorder: Int64 = 10_000

  /// Whether a place may be one of this ledger's. The number of an event that is not kept, or of none, is: unless the event
  /// before it was recorded later. Then another ledger gave the place, and this one has its numbers again.
  func mayHaveGiven(_ place: ChangeEvent.Place) throws -> Bool {
    let recordedAt: Int64? = try first("SELECT recorded_at FROM change_event WHERE sequence = ?", place.sequence)
    if let recordedAt { return recordedAt == place.recordedAt }
    guard try place.sequence <= newest() else { return false }
    let before: Int64? = try first(
      "SELECT recorded_at FROM change_event WHERE sequence > 0 AND sequence < ? ORDER BY sequence DESC LIMIT 1",
      place.sequence)
    return before.map { $0 - Self.disorder <= place.recordedAt } ?? true
  }

  /// Whether the oldest event is from before a moment, and not the only one.
  func hasAny(before moment: Date) throws -> Bool {
    let oldest = try all(
      "SELECT recorded_at FROM change_event WHERE sequence > 0 ORDER BY sequence LIMIT 2", as: Date.self)
    return try oldest.count == 2 && (oldest.first.map { $0 < moment } ?? false)
      || exists("SELECT 1 FROM recorded_refusal WHERE until < ? LIMIT 1", moment)
      || exists("SELECT 1 FROM reported_event WHERE recorded_at < ? LIMIT 1", moment)
  }

  /// Whether a user has an event under an ID of the app's.
  func hasReport(_ id: String, of user: UserID) throws -> Bool {
    try exists("SELECT 1 FROM reported_event WHERE user_id = ? AND id_sha256 = ?", user.key, ReceiptDigest(of: id))
  }

  /// Keeps the ID of an event that an app reports, which `hasReport` does not find.
  func keep(report id: String, of user: UserID, at recordedAt: Int64) throws {
    try execute(
      "INSERT INTO reported_event (user_id, id_sha256, recorded_at) VALUES (?, ?, ?)", user.key, ReceiptDigest(of: id),
      recordedAt)
  }

  private static let upsertBytes = SQL.upsert("reported_bytes", key: "user_id", "day, bytes")

  /// Counts the bytes of an event that an app reports of a user.
  /// - Returns: whether they are within those of a day; else nothing is counted.
  func countReport(_ bytes: Int, of user: UserID, on day: Int) throws -> Bool {
    let known: Int? = try first("SELECT bytes FROM reported_bytes WHERE user_id = ? AND day = ?", user.key, day)
    let total = (known ?? 0) + bytes
    guard total <= AppEvent.mostBytes else { return false }
    try execute(Self.upsertBytes, user.key, day, total)
    return true
  }

  /// Gives a user the IDs of events that an anonymous customer's app reported: they may come again.
  func move(reportsOf id: UserID, to user: UserID) throws {
    try execute(
      """
      INSERT INTO reported_event (user_id, id_sha256, recorded_at)
        SELECT CAST(? AS TEXT), id_sha256, recorded_at FROM reported_event AS former WHERE former.user_id = ?
      ON CONFLICT (user_id, id_sha256) DO NOTHING
      """, user.key, id.key)
    try execute("DELETE FROM reported_event WHERE user_id = ?", id.key)
  }

  // MARK: Retention

  /// Deletes the oldest events up to the first that is not from before a moment, and never the newest one.
  /// - Returns: how many were deleted.
  func prune(before moment: Date, limit: Int) throws -> Int {
    let refusals = try all(
      "SELECT user_id, subject FROM recorded_refusal WHERE until < ? ORDER BY until LIMIT ?", moment, max(0, limit),
      as: (String, String).self)
    for (user, subject) in refusals {
      try execute("DELETE FROM recorded_refusal WHERE user_id = ? AND subject = ?", user, subject)
    }
    try execute(
      """
      DELETE FROM reported_event WHERE (user_id, id_sha256) IN (
        SELECT user_id, id_sha256 FROM reported_event WHERE recorded_at < ? ORDER BY recorded_at LIMIT ?)
      """, moment, max(0, limit))
    let newest = try newest()
    let oldest = try all(
      "SELECT sequence, recorded_at FROM change_event WHERE sequence > 0 ORDER BY sequence LIMIT ?", max(0, limit),
      as: (Int64, Date).self)
    let over = oldest.prefix { $0.1 < moment && $0.0 < newest }
    guard let (last, _) = over.last else { return 0 }
    try execute("DELETE FROM change_event WHERE sequence <= ?", last)
    try tables.webhooks.pruneDeliveries(through: last)
    return over.count
  }

  // MARK: Refusals

  private static let upsertRefusal = SQL.upsert("recorded_refusal", key: "user_id, subject", "until")

  /// Whether a refusal makes an event: none of its kind did lately. Then it counts as the latest.
  func admitsRefusalEvent(of subject: String, to user: UserID, at now: Date, until: Date) throws -> Bool {
    let isRecent = try exists(
      "SELECT 1 FROM recorded_refusal WHERE user_id = ? AND subject = ? AND until > ?", user.key, subject, now)
    guard !isRecent else { return false }
    try execute(Self.upsertRefusal, user.key, subject, until)
    return true
  }
}
