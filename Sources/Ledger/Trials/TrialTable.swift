internal import Access
internal import Entitlements
internal import struct FoundationEssentials.Date

extension DeviceID: StoredWord {}

/// Trials and their sessions.
package struct TrialTable: LedgerTable {
  package let tables: LedgerTables

  func add(_ start: StartTrial, as id: GivenPeriod.ID) throws {
    try execute(
      """
      INSERT INTO trial (id, name, user_id, device_id, sessions_total, sessions_used, bit_owed)
      VALUES (?, ?, ?, ?, ?, ?, ?)
      """, id, start.terms.name, tables.accounts.key(of: start.user), start.device.id, start.terms.sessions,
      start.former?.sessionsUsed ?? 0, start.owesBit)
    try tables.marks.markTrial(id)
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
  func newest(of user: UserID) throws -> TrialRecord? {
    try first(
      "SELECT id FROM trial WHERE user_id = ? ORDER BY id DESC LIMIT 1", tables.accounts.key(of: user), as: Int64.self
    ).flatMap(
      trial)
  }

  /// The newest trial that was begun on a device, or used there by a user who shared it.
  func newest(on device: DeviceID) throws -> TrialRecord? {
    try first(
      """
      SELECT max(id) FROM (
        SELECT max(id) AS id FROM trial WHERE device_id = ?
        UNION ALL SELECT max(trial_id) FROM device WHERE device_id = ? AND trial_id IS NOT NULL) AS begun
      """, device, device, as: Int64?.self
    ).flatMap { $0 }.flatMap(trial)
  }

  /// The trial of a user as a device of theirs sees it: begun there, or elsewhere and shared. Of no user in particular, the
  /// newest there.
  func trial(of user: UserID?, on device: DeviceID) throws -> TrialRecord? {
    guard let user else { return try newest(on: device) }
    let begun = try first(
      "SELECT id FROM trial WHERE user_id = ? AND device_id = ? ORDER BY id DESC LIMIT 1",
      tables.accounts.key(of: user), device,
      as: Int64.self
    ).flatMap(trial)
    if let begun { return begun }
    return try isKnown(device, of: user) ? newest(of: user) : nil
  }

  private static func trial(_ row: SQLRow) throws -> TrialRecord {
    let (endsAt, endedAt) = (try row.get(9, as: Date.self), try row.get(10, as: Date?.self))
    return TrialRecord(
      name: try row.get(2), user: try row.get(1), device: try row.get(3), tier: try row.get(7),
      startedAt: try row.get(8), endsAt: min(endsAt, endedAt ?? endsAt), isEndedEarly: endedAt != nil,
      sessionsTotal: try row.get(4), sessionsUsed: try row.get(5), owesBit: try row.get(6), id: try row.get(0))
  }

  /// - Parameter endedAt: the moment of an early end; `nil` where it runs to its end.
  func amend(_ id: GivenPeriod.ID, endsAt: Date, endedAt: Date?, isOver: Bool, sessions: Int?) throws {
    try execute(
      "UPDATE given_period SET ends_at = ?, ended_at = ?, is_over = ? WHERE id = ?", endsAt, endedAt, isOver, id)
    try execute("UPDATE trial SET sessions_total = ? WHERE id = ?", sessions, id)
    try tables.marks.markTrial(id)
  }

  func count(runningAt now: Date) throws -> Int {
    try first(
      "SELECT count(*) FROM given_period WHERE is_over = 0 AND ends_at > ? AND ended_at IS NULL AND kind = 'trial'", now
    ) ?? 0
  }

  /// - Returns: whether the key is new.
  func addSession(_ key: String, to id: GivenPeriod.ID) throws -> Bool {
    try execute("INSERT INTO trial_session (trial_id, idempotency_key) VALUES (?, ?) ON CONFLICT DO NOTHING", id, key)
    return changesCount == 1
  }

  func removeSession(_ key: String, from id: GivenPeriod.ID) throws {
    try execute("DELETE FROM trial_session WHERE trial_id = ? AND idempotency_key = ?", id, key)
  }

  /// Sets how many sessions were used, unless they are as many already.
  func raiseSessions(of id: GivenPeriod.ID, to sessions: Int) throws {
    try execute("UPDATE trial SET sessions_used = ? WHERE id = ? AND sessions_used < ?", sessions, id, sessions)
  }

  func noteUse(of id: GivenPeriod.ID, by user: UserID, on device: DeviceID) throws {
    try execute(
      "UPDATE device SET trial_id = ? WHERE user_id = ? AND device_id = ?", id, tables.accounts.key(of: user), device)
  }

  // MARK: Devices

  func isKnown(_ device: DeviceID, of user: UserID) throws -> Bool {
    try exists("SELECT 1 FROM device WHERE user_id = ? AND device_id = ?", tables.accounts.key(of: user), device)
  }

  /// The most devices of one user that are kept.
  private static let deviceLimit = 100

  private static let upsertDevice = SQL.upsert(
    "device", key: "user_id, device_id", first: "first_seen_at",
    "app, model, ios_version, app_version, push_token, last_seen_at"
  ) { "coalesce(excluded.\($0), device.\($0))" }

  /// Adds or updates a device; members that are `nil` stay as they were. Of a user with too many, the device that was not seen for
  /// longest is deleted.
  func keep(_ device: Device, of user: UserID, at now: Date) throws {
    let key = try tables.accounts.key(of: user)
    if try !isKnown(device.id, of: user),
      try first("SELECT count(*) FROM device WHERE user_id = ?", key) ?? 0 >= Self.deviceLimit
    {
      try execute(
        """
        DELETE FROM device WHERE user_id = ? AND device_id = (
          SELECT device_id FROM device WHERE user_id = ? ORDER BY last_seen_at LIMIT 1)
        """, key, key)
    }
    try execute(
      Self.upsertDevice, key, device.id, now, device.app, device.model, device.iosVersion, device.appVersion,
      device.pushToken, now)
  }

  /// The time for which a push token tells which device is the successor of which.
  private static let succession = Duration.seconds(30 * 86_400)

  /// The trial that was begun or used on the device before this one: the app had the same push token there.
  func trialOfPredecessor(of device: Device, at now: Date) throws -> TrialRecord? {
    guard let token = device.pushToken else { return nil }
    // Somebody may name many devices with one token: the newest few decide.
    let devices = try all(
      """
      SELECT device_id FROM device
      WHERE push_token = ? AND last_seen_at >= ? AND device_id <> ? AND coalesce(app, '') = ?
      ORDER BY last_seen_at DESC, device_id LIMIT 10
      """, token, now.advanced(by: .zero - Self.succession), device.id, device.app ?? BundleID(""), as: DeviceID.self)
    return try devices.lazy.compactMap(newest(on:)).first
  }
}

extension LedgerTables { package var trials: TrialTable { TrialTable(tables: self) } }
