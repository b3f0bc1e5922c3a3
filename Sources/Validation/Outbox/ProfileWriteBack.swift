import Entitlements
package import Ledger
import Logging
package import Profiles
import Resilience
import Synchronization

package import struct FoundationEssentials.Date

/// Writes the newest verdicts to the app's own rows.
///
/// A row is written once in line with the request, so that the app reads its own write, and otherwise by the deliverer.
/// The verdict is read from the ledger at the moment of writing, and only one task writes a user's row at a time: the
/// store sees the verdicts of a user in order, and of several pending ones only the newest.
package struct ProfileWriteBack: Sendable {
  var store: any ProfileStore
  var ledger: Ledger
  /// The time of one write, the wait for another write of the same row included.
  var deadline: Duration
  package var now: @Sendable () -> Date
  /// The start of this process. Asked each time: Apple may correct the clock that it was told by.
  var startedAt: @Sendable () -> Date
  var jitter: @Sendable (_ ceiling: Duration) -> Duration
  package var health: ProfileStoreHealth
  var rowLocks = KeyedLock<UserID>()

  package init(
    store: any ProfileStore, ledger: Ledger, deadline: Duration, now: @escaping @Sendable () -> Date,
    startedAt: @escaping @Sendable () -> Date, jitter: @escaping @Sendable (_ ceiling: Duration) -> Duration,
    health: ProfileStoreHealth
  ) {
    self.store = store
    self.ledger = ledger
    self.deadline = deadline
    self.now = now
    self.startedAt = startedAt
    self.jitter = jitter
    self.health = health
  }

  enum Outcome: Hashable, Sendable {
    /// Nothing is left to write now.
    case settled(ProfileWriteState)
    /// The store refuses this update; others may pass. It stays in the ledger.
    case refused
    /// The update did not get through, and stays in the ledger.
    case failed
  }

  /// Writes a user's row, if there is anything to write.
  ///
  /// - Parameters:
  ///   - version: the written version that is due for confirmation. Other written ones wait until they are due: an earlier
  ///     write would confirm nothing.
  ///   - recorded: the update as recorded a moment ago. It is not read again if it is still the newest.
  func write(
    _ user: UserID, confirming version: Int64? = nil, recorded: WaitingUpdate? = nil, logger: Logger
  ) async -> Outcome {
    let end = ContinuousClock.now.advanced(by: deadline)
    guard await rowLocks.lock(user, until: end) else { return .failed }
    defer { rowLocks.unlock(user) }
    do throws(LedgerError) {
      if let recorded, ledger.isNewest(recorded) { return try await send(recorded, deadline: end, logger: logger) }
      guard let update = try await ledger.waitingUpdate(of: user), update.state != .written || update.version == version
      else { return .settled(.written) }
      return try await send(update, deadline: end, logger: logger)
    } catch {
      // The verdict is recorded, and that its row is to be written.
      logger.warning("the waiting update of a profile cannot be read", metadata: ["error": "\(error)"])
      return .failed
    }
  }

  private func send(
    _ update: WaitingUpdate, isRaised: Bool = false, deadline: ContinuousClock.Instant, logger: Logger
  ) async throws(LedgerError) -> Outcome {
    let outcome = await store.apply(ProfileUpdate(update), deadline: deadline)
    var logger = logger
    logger[metadataKey: "user_id"] = "\(update.user)"
    if !isRaised, case .superseded(let version) = outcome, isOverwritten(version, by: update, logger: logger) {
      try await ledger.raiseUpdate(of: update.user, version: update.version, above: version)
      guard let raised = try await ledger.waitingUpdate(of: update.user) else { return .settled(.written) }
      return try await send(raised, isRaised: true, deadline: deadline, logger: logger)
    }
    health.note(outcome, of: update.user)
    switch outcome {
    case .applied:
      return try await settle(update)
    case .superseded(let version):
      // The row was proven by something that this ledger never saw, or has lost. An older verdict does not replace it,
      // as it may lower somebody. Apple's next answer is newer than both.
      logger.error(
        "the profile is newer than the ledger: it stays until Apple is asked again", metadata: ["version": "\(version)"]
      )
      try await putBack(update, .newerRow, least: UpdateSchedule.look.ceiling(after: update.attempts))
      return .refused
    case .noSuchProfile:
      return try await miss(update, logger: logger)
    case .impossibleUserID(let trouble):
      return try await miss(update, cause: trouble, logger: logger)
    case .refused(let trouble):
      logger.error("the profile store refuses an update", metadata: ["code": "\(trouble.code)", "cause": "\(trouble)"])
      try await putBack(update, trouble, least: UpdateSchedule.refusal)
      return .refused
    case .misconfigured(let trouble) where trouble.mayBeOneRows:
      // Each write runs the trigger or policy again, and it may be there on purpose.
      let isOfTheStore = health.state == .misconfigured(code: trouble.code)
      logger.log(
        level: isOfTheStore ? .critical : .error,
        trouble.code == ProfileStoreTrouble.changedByStore
          ? "the profile store changes an update" : "the profile store refuses an update",
        metadata: ["code": "\(trouble.code)", "cause": "\(trouble)"])
      // A cause that hits several users ends for all of them at once: no update waits for a day after that.
      let pause = UpdateSchedule.look.ceiling(after: update.attempts)
      try await putBack(update, trouble, least: isOfTheStore ? min(pause, .seconds(3_600)) : pause)
      return .refused
    case .misconfigured(let trouble):
      logger.critical(
        "the profile store refuses updates from this service",
        metadata: ["code": "\(trouble.code)", "cause": "\(trouble)"])
      try await putBack(update, trouble, least: UpdateSchedule.misconfiguration)
    #if PLANTED_DEFECTS
      case .unavailable where PlantedDefect.forgetFailedUpdate.isActive:
        return try await settle(update)
    #endif
    case .unavailable(let trouble, _) where trouble.code == GuardedProfileStore.refusal:
      // The store was not called. The update stays due: to count this would only cost disk writes.
      break
    case .unavailable(let trouble, let retryAfter):
      logger.warning("the profile store is away", metadata: ["code": "\(trouble.code)", "cause": "\(trouble)"])
      try await putBack(update, trouble, least: retryAfter ?? .zero)
    }
    return .failed
  }

  /// Whether an update is written above the version of its row, since that shows no newer verdict: nothing newer can be
  /// proven of an erased user, no evidence is of the future, and another tier or status under the update's own version is
  /// that of another ledger or of a trigger.
  private func isOverwritten(_ version: Int64, by update: WaitingUpdate, logger: Logger) -> Bool {
    guard version <= WaitingUpdate.highestFloor else { return false }
    if update.isReset { return true }
    if version == update.version {
      logger.warning(
        "the profile has other values under the ledger's version: the ledger continues from it",
        metadata: ["version": "\(version)"])
      return true
    }
    guard version > now().advanced(by: UpdateSchedule.clockTolerance).millisecondsSince1970 else { return false }
    logger.warning(
      "the profile's version is in the future: the ledger continues from it", metadata: ["version": "\(version)"])
    return true
  }

  private func miss(
    _ update: WaitingUpdate, cause: ProfileStoreTrouble? = nil, logger: Logger
  ) async throws(LedgerError) -> Outcome {
    if update.state != .missing {
      logger.notice(
        "the profile store has no such profile", metadata: cause.map { ["code": "\($0.code)", "cause": "\($0)"] })
    }
    let attempts = update.state == .missing ? update.attempts : 0
    try await ledger.missUpdate(
      of: update.user, version: update.version,
      retryAt: now().advanced(by: UpdateSchedule.look.ceiling(after: attempts)))
    return .settled(.missing)
  }

  private func settle(_ update: WaitingUpdate) async throws(LedgerError) -> Outcome {
    let again = store.refusesOlder ? nil : now().advanced(by: UpdateSchedule.confirmation)
    // The previous process may have been sending an earlier update when it ended.
    let isDoubtful = update.state == .waiting && update.waitingSince < startedAt()
    if update.state == .waiting, !update.isReset {
      ledger.settleLater(update, isDoubtful: isDoubtful, confirmingAt: again)
      return .settled(.written)
    }
    try await ledger.settleUpdate(
      of: update.user, version: update.version, isDoubtful: isDoubtful, confirmingAt: again)
    // The ID of an erased user is gone from the outbox, and has to go from the log. It goes with the next one otherwise.
    if update.isReset { try? await ledger.removeTraces() }
    return .settled(.written)
  }

  private func putBack(
    _ update: WaitingUpdate, _ trouble: ProfileStoreTrouble, least: Duration
  ) async throws(LedgerError) {
    let pause = max(jitter(UpdateSchedule.backoff.ceiling(after: update.attempts)), least)
    try await ledger.retryUpdate(
      of: update.user, version: update.version, at: now().advanced(by: pause), problem: trouble.code,
      isDoubtful: trouble.mayStillBeApplied && !store.refusesOlder)
  }
}

extension ProfileStoreTrouble {
  /// The trouble of an update that waits for a newer verdict.
  static let newerRow = ProfileStoreTrouble(
    code: "newer_row", sentence: "The profile is of a newer verdict than the ledger's")
}
