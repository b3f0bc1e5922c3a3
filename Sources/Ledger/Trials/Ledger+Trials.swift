package import Entitlements
package import struct FoundationEssentials.Date

/// Trials of the app's own, and the devices on which they run.
extension Ledger {
  /// Whether a device is known as a user's.
  package func knows(_ device: DeviceID, of user: UserID) async throws(LedgerError) -> Bool {
    try await readShort { tables in try tables.isKnown(device, of: user) }
  }

  /// The trial that a user has on a device; of no user in particular, the one that was begun there.
  package func trial(on device: DeviceID, of user: UserID?) async throws(LedgerError) -> TrialRecord? {
    try await readShort { tables in
      guard let user else { return try tables.newestTrial(on: device) }
      return try tables.trial(of: user, on: device)
    }
  }

  /// The user's newest trial, on whichever device.
  package func trial(of user: UserID) async throws(LedgerError) -> TrialRecord? {
    try await readShort { tables in try tables.newestTrial(of: user) }
  }

  /// The trials that a user has begun, the newest first.
  package func trials(of user: UserID, limit: Int) async throws(LedgerError) -> [TrialRecord] {
    try await read { tables in try tables.trials(of: user, limit: limit) }
  }

  /// Whether a trial of the user's, of the device's or of the one before it is known.
  ///
  /// - Parameter onAnyDevice: whether one that the user began on another device counts.
  package func hasTrial(
    _ user: UserID, on device: Device, onAnyDevice: Bool, at now: Date
  ) async throws(LedgerError) -> Bool {
    try await readShort { tables in try tables.hasTrial(user, on: device, onAnyDevice: onAnyDevice, at: now) }
  }

  /// A page of all trials, in the order in which they were recorded.
  ///
  /// - Parameters:
  ///   - id: the last one of the page before.
  ///   - now: only those that run then; `nil`: all.
  package func trials(
    after id: GivenPeriod.ID, runningAt now: Date?, limit: Int
  ) async throws(LedgerError) -> [TrialRecord] {
    try await read { tables in try tables.trials(after: id, runningAt: now, limit: limit) }
  }

  /// Takes back a trial that should not have begun: the user may begin one again.
  package func withdraw(
    _ trial: TrialRecord, requestID: String, _ evaluationContext: EvaluationContext
  ) async throws(LedgerError) {
    try await engine.submit { tables in
      try tables.endUsedUp(trial.id, of: trial.user, requestID: requestID, evaluationContext)
      try tables.removeTrial(trial.id)
    }
  }

  /// Notes that Apple knows of a trial's device.
  package func settleBit(of trial: GivenPeriod.ID) async throws(LedgerError) {
    try await engine.submit { tables in try tables.settleBit(of: trial) }
  }
}
