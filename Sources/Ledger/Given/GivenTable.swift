internal import Entitlements
internal import struct FoundationEssentials.Date

/// Grants and trials.
package struct GivenTable: LedgerTable {
  package let tables: LedgerTables

  func add(_ giving: Give, to user: UserID) throws -> GivenRecord {
    let id = try first(
      """
      INSERT INTO given_period
        (user_id, kind, tier, starts_at, ends_at, author, text, request_id, recorded_at, is_over, idempotency_key)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, ?) RETURNING id
      """, user.key, giving.kind, giving.tier, giving.startsAt, giving.endsAt, giving.author, giving.note,
      giving.requestID, giving.evaluationContext.recordedAt, giving.idempotencyKey, as: Int64.self)
    guard let id, let record = try given(id) else { throw StoredForm.Unstorable() }
    return record
  }

  private static func given(where condition: String) -> SQL {
    SQL(
      """
      SELECT id, (SELECT coalesce(spelling, key) FROM account WHERE key = user_id), user_id, kind, tier, starts_at,
        ends_at, ended_at, author, text, request_id, recorded_at
      FROM given_period WHERE \(condition)
      """)
  }

  private static let givenByID = given(where: "id = ?")
  private static let givenByKey = given(where: "user_id = ? AND idempotency_key = ?")
  private static let givenToUser = given(where: "user_id = ? ORDER BY id DESC LIMIT ?")
  private static let givenToUserNotOver = given(where: "user_id = ? AND is_over = 0 ORDER BY id")
  private static let givenEnded = given(where: "is_over = 0 AND ends_at <= ? ORDER BY ends_at, id LIMIT ?")

  /// Over by time alone though its end lies ahead, or given in the future and so to begin there.
  private static let givenMistimed = given(
    where: """
      id > ? AND ended_at IS NULL
        AND (is_over = 1 AND ends_at > ? OR is_over = 0 AND starts_at > ? AND recorded_at > ?)
      ORDER BY id LIMIT ?
      """)

  func given(_ id: GivenPeriod.ID) throws -> GivenRecord? { try first(Self.givenByID, id, read: Self.given) }

  func given(to user: UserID, under idempotencyKey: String) throws -> GivenRecord? {
    try first(Self.givenByKey, user.key, idempotencyKey, read: Self.given)
  }

  func given(to user: UserID, limit: Int) throws -> [GivenRecord] {
    try all(Self.givenToUser, user.key, max(0, limit), read: Self.given)
  }

  /// The periods of a user whose end is not recorded, in the order in which they were given.
  func notOver(to user: UserID) throws -> [GivenPeriod] {
    try all(Self.givenToUserNotOver, user.key, read: Self.given).map(\.period)
  }

  func hasAny(endedAt now: Date) throws -> Bool {
    try exists("SELECT 1 FROM given_period WHERE is_over = 0 AND ends_at <= ? LIMIT 1", now)
  }

  func given(endedAt now: Date, limit: Int) throws -> [GivenRecord] {
    try all(Self.givenEnded, now, max(0, limit), read: Self.given)
  }

  /// The periods that a wrong clock has ended, or given in the future, in the order of their IDs.
  func mistimed(after id: GivenPeriod.ID, at now: Date, tolerance: Duration, limit: Int) throws -> [GivenRecord] {
    try all(
      Self.givenMistimed, id, now.advanced(by: tolerance), now, now, limit, read: Self.given)
  }

  /// Has a period go on until its end, from now on where a wrong clock gave it. A trial keeps its length.
  func reopen(_ id: GivenPeriod.ID, at now: Date) throws {
    try execute(
      """
      UPDATE given_period
      SET is_over = 0,
        ends_at = CASE WHEN starts_at > ? AND recorded_at > ? AND kind = 'trial' THEN ends_at - starts_at + ? ELSE ends_at END,
        starts_at = CASE WHEN starts_at > ? AND recorded_at > ? THEN ? ELSE starts_at END
      WHERE id = ?
      """, now, now, now, now, now, now, id)
    try tables.marks.markTrial(id)
  }

  /// - Parameter endedAt: the moment of an early end; `nil` at its own end.
  func end(_ id: GivenPeriod.ID, endedAt: Date?) throws {
    try execute("UPDATE given_period SET is_over = 1, ended_at = ? WHERE id = ?", endedAt, id)
    try tables.marks.markTrial(id)
  }

  private static func given(_ row: SQLRow) throws -> GivenRecord {
    GivenRecord(
      user: try row.get(1, as: UserID?.self) ?? row.get(2),
      period: GivenPeriod(
        id: try row.get(0), kind: try row.get(3), tier: try row.get(4), startsAt: try row.get(5), endsAt: try row.get(6)
      ),
      endedAt: try row.get(7), author: try row.get(8), note: try row.get(9), requestID: try row.get(10),
      recordedAt: try row.get(11))
  }
}

extension LedgerTables { package var given: GivenTable { GivenTable(tables: self) } }
