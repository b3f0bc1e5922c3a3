package import Entitlements
package import struct FoundationEssentials.Date

/// Trials of the app's own, and the devices on which they run.
extension Ledger {
  /// Whether a device is known as a user's, or has a trial of theirs.
  package func knows(_ device: DeviceID, of user: UserID) async throws(LedgerError) -> Bool {
    try await readShort { tables in
      try tables.trials.isKnown(device, of: user) || tables.trials.trial(of: user, on: device) != nil
    }
  }

  /// The trial that a user has on a device; of no user in particular, the one that was begun there.
  package func trial(on device: DeviceID, of user: UserID?) async throws(LedgerError) -> TrialRecord? {
    try await readShort { tables in try tables.trials.trial(of: user, on: device) }
  }

  /// The user's newest trial, on whichever device.
  package func trial(of user: UserID) async throws(LedgerError) -> TrialRecord? {
    try await readShort { tables in try tables.trials.newest(of: user) }
  }

  /// The trials that a user has begun, the newest first.
  package func trials(of user: UserID, limit: Int) async throws(LedgerError) -> [TrialRecord] {
    try await read { tables in
      try tables.all(
        "SELECT id FROM trial WHERE user_id = ? ORDER BY id DESC LIMIT ?", tables.accounts.key(of: user),
        max(0, limit),
        as: Int64.self
      ).compactMap(tables.trials.trial)
    }
  }

  /// Whether a trial of the user's, of the device's or of the one before it is known.
  ///
  /// - Parameter onAnyDevice: whether one that the user began on another device counts.
  package func hasTrial(
    _ user: UserID, on device: Device, onAnyDevice: Bool, at now: Date
  ) async throws(LedgerError) -> Bool {
    try await readShort { tables in
      if let own = try tables.trials.newest(of: user), onAnyDevice || own.device == device.id { return true }
      return try tables.trials.newest(on: device.id) != nil
        || tables.trials.trialOfPredecessor(of: device, at: now) != nil
    }
  }

  /// A page of all trials, in the order in which they were recorded.
  ///
  /// - Parameters:
  ///   - id: the last one of the page before.
  ///   - now: only those that run then; `nil`: all.
  package func trials(
    after id: GivenPeriod.ID, runningAt now: Date?, limit: Int
  ) async throws(LedgerError) -> [TrialRecord] {
    try await read { tables in
      let ids =
        if let now {
          try tables.all(
            """
            SELECT id FROM given_period WHERE kind = 'trial' AND is_over = 0 AND id > ? AND ends_at > ?
            ORDER BY id LIMIT ?
            """, id, now, max(0, limit), as: Int64.self)
        } else {
          try tables.all("SELECT id FROM trial WHERE id > ? ORDER BY id LIMIT ?", id, max(0, limit), as: Int64.self)
        }
      return try ids.compactMap(tables.trials.trial)
    }
  }

  /// Takes back a trial that should not have begun: the user may begin one again. Its period stays in the list of what was
  /// given.
  package func withdraw(
    _ trial: TrialRecord, requestID: String, _ evaluationContext: EvaluationContext
  ) async throws(LedgerError) {
    try await engine.submit { tables in
      try tables.given.endUsedUp(trial.id, of: trial.user, requestID: requestID, evaluationContext)
      try tables.marks.markTrial(trial.id)
      try tables.execute("DELETE FROM trial WHERE id = ?", trial.id)
    }
  }

  /// Notes that Apple knows of a trial's device.
  package func settleBit(of trial: GivenPeriod.ID) async throws(LedgerError) {
    try await engine.submit { tables in try tables.execute("UPDATE trial SET bit_owed = 0 WHERE id = ?", trial) }
  }
}
