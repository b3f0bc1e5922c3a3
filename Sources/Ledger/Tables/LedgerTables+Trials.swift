internal import Access
internal import Entitlements
internal import struct FoundationEssentials.Date

extension DeviceID: StoredWord {}

extension LedgerTables {
  // MARK: Trials

  func add(_ start: TrialStart, as id: GivenPeriod.ID) throws {
    try execute(
      """
      INSERT INTO trial (id, name, user_id, device_id, sessions_total, sessions_used, bit_owed)
      VALUES (?, ?, ?, ?, ?, 0, ?)
      """, id, start.terms.name, start.user.key, start.device.id, start.terms.sessions, start.owesBit)
  }

  func trial(_ id: GivenPeriod.ID) throws -> TrialRecord? {
    try first(
      """
      SELECT trial.id, (SELECT coalesce(spelling, key) FROM account WHERE key = trial.user_id), name, device_id,
        sessions_total, sessions_used, bit_owed, tier, starts_at, ends_at, ended_at
      FROM trial JOIN given_period ON given_period.id = trial.id WHERE trial.id = ?
      """, id, read: Self.trial)
  }

  /// The user's newest trial, on any device.
  func newestTrial(of user: UserID) throws -> TrialRecord? {
    try first("SELECT id FROM trial WHERE user_id = ? ORDER BY id DESC LIMIT 1", user.key) {
      try $0.get(0, as: Int64.self)
    }.flatMap(trial)
  }

  /// The user's trials, the newest first.
  func trials(of user: UserID, limit: Int) throws -> [TrialRecord] {
    try all(
      "SELECT id FROM trial WHERE user_id = ? ORDER BY id DESC LIMIT ?", user.key, max(0, limit)
    ) { try $0.get(0, as: Int64.self) }.compactMap(trial)
  }

  /// The newest trial that was begun on a device, or used there by a user who shared it.
  func newestTrial(on device: DeviceID) throws -> TrialRecord? {
    try first(
      """
      SELECT max(id) FROM (
        SELECT max(id) AS id FROM trial WHERE device_id = ?
        UNION ALL SELECT max(trial_id) FROM device WHERE device_id = ? AND trial_id IS NOT NULL) AS begun
      """, device, device
    ) { try $0.get(0, as: Int64?.self) }.flatMap { $0 }.flatMap(trial)
  }

  /// The trial of a user as a device of theirs sees it: begun there, or elsewhere and shared.
  func trial(of user: UserID, on device: DeviceID) throws -> TrialRecord? {
    let begun = try first(
      "SELECT id FROM trial WHERE user_id = ? AND device_id = ? ORDER BY id DESC LIMIT 1", user.key, device
    ) { try $0.get(0, as: Int64.self) }.flatMap(trial)
    if let begun { return begun }
    return try isKnown(device, of: user) ? newestTrial(of: user) : nil
  }

  private static func trial(_ row: SQLRow) throws -> TrialRecord {
    let (endsAt, endedAt) = (try row.get(9, as: Date.self), try row.get(10, as: Date?.self))
    return TrialRecord(
      name: try row.get(2), user: try row.get(1), device: try row.get(3), tier: try row.get(7),
      startedAt: try row.get(8), endsAt: min(endsAt, endedAt ?? endsAt), isEndedEarly: endedAt != nil,
      sessionsTotal: try row.get(4), sessionsUsed: try row.get(5), owesBit: try row.get(6), id: try row.get(0))
  }

  func countTrials(runningAt now: Date) throws -> Int {
    try first(
      "SELECT count(*) FROM given_period WHERE is_over = 0 AND ends_at > ? AND ended_at IS NULL AND kind = 'trial'", now
    ) { try $0.get(0) } ?? 0
  }

  /// - Returns: whether the key is new.
  func addSession(_ key: String, to id: GivenPeriod.ID) throws -> Bool {
    try execute("INSERT INTO trial_session (trial_id, idempotency_key) VALUES (?, ?) ON CONFLICT DO NOTHING", id, key)
    return changesCount == 1
  }

  func removeSession(_ key: String, from id: GivenPeriod.ID) throws {
    try execute("DELETE FROM trial_session WHERE trial_id = ? AND idempotency_key = ?", id, key)
  }

  func countSession(of id: GivenPeriod.ID) throws {
    try execute("UPDATE trial SET sessions_used = sessions_used + 1 WHERE id = ?", id)
  }

  /// Sets how many sessions were used, unless they are as many already.
  func raiseSessions(of id: GivenPeriod.ID, to sessions: Int) throws {
    try execute("UPDATE trial SET sessions_used = ? WHERE id = ? AND sessions_used < ?", sessions, id, sessions)
  }

  func noteUse(of id: GivenPeriod.ID, by user: UserID, on device: DeviceID) throws {
    try execute("UPDATE device SET trial_id = ? WHERE user_id = ? AND device_id = ?", id, user.key, device)
  }

  /// Deletes a trial, so that another may begin. Its period stays in the list of what was given.
  func removeTrial(_ id: GivenPeriod.ID) throws { try execute("DELETE FROM trial WHERE id = ?", id) }

  func settleBit(of id: GivenPeriod.ID) throws {
    try execute("UPDATE trial SET bit_owed = 0 WHERE id = ?", id)
  }

  // MARK: Devices

  func isKnown(_ device: DeviceID, of user: UserID) throws -> Bool {
    try exists("SELECT 1 FROM device WHERE user_id = ? AND device_id = ?", user.key, device)
  }

  /// The most devices of one user that are kept.
  private static let deviceLimit = 100

  /// Adds or updates a device; members that are `nil` stay as they were. Of a user with too many, the device that was not seen for
  /// longest is deleted.
  func keep(_ device: Device, of user: UserID, at now: Date) throws {
    if try !isKnown(device.id, of: user), try countDevices(of: user) >= Self.deviceLimit {
      try execute(
        """
        DELETE FROM device WHERE user_id = ? AND device_id = (
          SELECT device_id FROM device WHERE user_id = ? ORDER BY last_seen_at LIMIT 1)
        """, user.key, user.key)
    }
    try execute(
      """
      INSERT INTO device
        (user_id, device_id, model, ios_version, app_version, push_token, first_seen_at, last_seen_at)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?)
      ON CONFLICT (user_id, device_id) DO UPDATE SET
        model = coalesce(excluded.model, device.model),
        ios_version = coalesce(excluded.ios_version, device.ios_version),
        app_version = coalesce(excluded.app_version, device.app_version),
        push_token = coalesce(excluded.push_token, device.push_token), last_seen_at = excluded.last_seen_at
      """, user.key, device.id, device.model, device.iosVersion, device.appVersion, device.pushToken, now, now)
  }

  func countDevices(of user: UserID) throws -> Int {
    try first("SELECT count(*) FROM device WHERE user_id = ?", user.key) { try $0.get(0) } ?? 0
  }
}
