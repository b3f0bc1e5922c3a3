package import Entitlements
package import Ledger
import Logging
package import Profiles
import Resilience
import Synchronization

package import struct FoundationEssentials.Date

/// How far the app's own row of a user has got, as callers are told.
package enum ProfileWrite: String, Hashable, Sendable, CaseIterable {
  /// A reader of the row sees the verdict now.
  case committed
  /// Recorded; the store is slow or away, or its row is of a newer verdict than the ledger's, and the row will follow.
  case queued
  /// The store has no such row.
  case missing
  /// No store is configured.
  case none

  package init(_ state: ProfileWriteState) {
    self =
      switch state {
      case .waiting: .queued
      case .written: .committed
      case .missing: .missing
      }
  }

  /// The same for what a caller is shown. The row was told what is recorded; where time or the rules have moved on from
  /// that, it will be told.
  package func telling(_ shown: Entitlement, recorded: Entitlement) -> ProfileWrite {
    self == .committed && shown.profileRow != recorded.profileRow ? .queued : self
  }
}

/// A verdict as the app's own row holds it.
struct ProfileRow: Hashable, Sendable {
  var tier: Tier
  var status: SubscriptionStatus
  /// Where access ends, or where it ended. An app that compares this with its own clock is right in both cases.
  var expiresAt: Date?
  var originalTransactionID: OriginalTransactionID?
}

extension Entitlement {
  var profileRow: ProfileRow {
    ProfileRow(
      tier: tier, status: status, expiresAt: accessUntil ?? (status == .expired ? expiresAt : nil),
      originalTransactionID: originalTransactionID)
  }
}

/// Brings the app's own rows to the newest verdicts.
///
/// A row is written once in line with the request, so that the app reads its own write, and otherwise by the deliverer.
/// What is to be written is read from the ledger at the moment of writing, and one user's row is written by one task at a
/// time: the store sees a user's verdicts in their order, and of those that came in between only the newest.
package struct ProfileWriteBack: Sendable {
  package var store: any ProfileStore
  package var ledger: any Ledger
  /// How long one write may take, the wait for another write of the same row included.
  package var deadline: Duration
  package var now: @Sendable () -> Date
  /// When this process began.
  package var startedAt: Date
  package var jitter: @Sendable (_ ceiling: Duration) -> Duration
  package var health: ProfileStoreHealth

  package init(
    store: any ProfileStore, ledger: any Ledger, deadline: Duration, now: @escaping @Sendable () -> Date,
    startedAt: Date, jitter: @escaping @Sendable (_ ceiling: Duration) -> Duration, health: ProfileStoreHealth
  ) {
    self.store = store
    self.ledger = ledger
    self.deadline = deadline
    self.now = now
    self.startedAt = startedAt
    self.jitter = jitter
    self.health = health
  }
  var rowLocks = KeyedLock<UserID>()

  enum Outcome: Hashable, Sendable {
    /// There is nothing to write now.
    case settled(ProfileWriteState)
    /// The store will not take this one as it is; others may pass. It stays in the ledger.
    case refused
    /// Not now; it stays in the ledger.
    case failed
  }

  /// Writes a user's row, if there is anything to write.
  ///
  /// - Parameter version: what was written and is due to be confirmed. Any other that was written waits until it is due: to
  ///   write it sooner would confirm nothing.
  func write(_ user: UserID, confirming version: Int64? = nil, logger: Logger) async -> Outcome {
    let end = ContinuousClock.now.advanced(by: deadline)
    guard await rowLocks.lock(user, until: end) else { return .failed }
    defer { rowLocks.unlock(user) }
    do throws(LedgerError) {
      guard let update = try await ledger.waitingUpdate(of: user), update.state != .written || update.version == version
      else { return .settled(.written) }
      return try await send(update, deadline: end, logger: logger)
    } catch {
      // The verdict is recorded, and so is that it has to be written.
      logger.warning("the waiting update of a profile cannot be read", metadata: ["error": "\(error)"])
      return .failed
    }
  }

  private func send(
    _ update: WaitingUpdate, isRaised: Bool = false, deadline: ContinuousClock.Instant, logger: Logger
  ) async throws(LedgerError) -> Outcome {
    let outcome = await store.apply(ProfileUpdate(update), deadline: deadline)
    health.note(outcome, of: update.user)
    var logger = logger
    logger[metadataKey: "user_id"] = "\(update.user)"
    switch outcome {
    case .applied:
      return try await settle(update)
    case .superseded(let version) where !isRaised && isInTheFuture(version) && version <= WaitingUpdate.highestFloor:
      logger.warning(
        "the profile's version is in the future: the ledger continues from it", metadata: ["version": "\(version)"])
      try await ledger.raiseUpdate(of: update.user, version: update.version, above: version)
      guard let raised = try await ledger.waitingUpdate(of: update.user) else { return .settled(.written) }
      return try await send(raised, isRaised: true, deadline: deadline, logger: logger)
    case .superseded(let version):
      // What the row says was proven by something that this ledger never saw, or has lost. An older verdict does not take
      // its place: it may lower somebody. Apple's next answer is newer than both.
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
      // The store was not asked. It is due as it was: to count this would only keep the disk busy.
      break
    case .unavailable(let trouble, let retryAfter):
      logger.warning("the profile store is away", metadata: ["code": "\(trouble.code)", "cause": "\(trouble)"])
      try await putBack(update, trouble, least: retryAfter ?? .zero)
    }
    return .failed
  }

  /// Whether a version comes of no evidence: it stands for a moment that has not come.
  private func isInTheFuture(_ version: Int64) -> Bool {
    version > now().advanced(by: UpdateSchedule.clockTolerance).millisecondsSince1970
  }

  private func miss(
    _ update: WaitingUpdate, cause: ProfileStoreTrouble? = nil, logger: Logger
  ) async throws(LedgerError) -> Outcome {
    if update.state != .missing {
      logger.notice("there is no such profile", metadata: cause.map { ["code": "\($0.code)", "cause": "\($0)"] })
    }
    let attempts = update.state == .missing ? update.attempts : 0
    try await ledger.missUpdate(
      of: update.user, version: update.version,
      retryAt: now().advanced(by: UpdateSchedule.look.ceiling(after: attempts)))
    return .settled(.missing)
  }

  private func settle(_ update: WaitingUpdate) async throws(LedgerError) -> Outcome {
    let again = store.refusesOlder ? nil : now().advanced(by: UpdateSchedule.confirmation)
    // An update from before this process may have been under way when the last one ended.
    let isDoubtful = update.state == .waiting && update.waitingSince < startedAt
    try await ledger.settleUpdate(
      of: update.user, version: update.version, isDoubtful: isDoubtful, confirmingAt: again)
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

/// When an update that failed is tried again: for ever, with full jitter below a ceiling that doubles.
///
///     failures   1     2     3     4      5      6      7 …
///     ceiling    2 s   4 s   8 s   16 s   32 s   64 s   2 min
enum UpdateSchedule {
  static let backoff = Backoff(base: .seconds(2), cap: .seconds(120))
  /// An update that the store will not take may be taken when another was, or when somebody has fixed the table.
  static let refusal: Duration = .seconds(30)
  /// The pause after a refusal that only a person can fix.
  static let misconfiguration: Duration = .seconds(30)

  /// A write of which no answer came is carried out by then, or never: no gateway and no lock waits longer.
  static let confirmation: Duration = .seconds(60)

  /// Clocks differ by less, and versions of updates that came within one millisecond as well.
  static let clockTolerance: Duration = .seconds(3600)

  /// When to look again for a row that is missing, or newer than the ledger: after a minute, twice as long each time, a
  /// day at most.
  static let look = Backoff(base: .seconds(60), cap: .seconds(86_400))
}

extension ProfileStoreTrouble {
  /// The code of an update that waits for a newer verdict.
  static let newerRow = ProfileStoreTrouble(
    code: "newer_row", sentence: "The profile is of a newer verdict than the ledger's")
}

extension ProfileUpdate {
  package init(_ update: WaitingUpdate) {
    let row = update.entitlement.profileRow
    self.init(
      user: update.user, version: update.version, tier: row.tier, status: row.status, expiresAt: row.expiresAt,
      originalTransactionID: row.originalTransactionID)
  }
}

/// The profile store as last seen by this process, for operators.
package final class ProfileStoreHealth: Sendable {
  package enum State: Hashable, Sendable {
    case unknown
    case ok
    case unavailable(code: String)
    case misconfigured(code: String)
  }

  private struct Observation {
    var state = State.unknown
    /// Whether the key saw no row when the store was looked at. What is hidden from it is missing, as what is not there.
    var seesNoRow = false
    /// The user whose row alone failed recently.
    var suspect: UserID?
  }

  /// Guards the last sight.
  private let last = Mutex(Observation())

  package init() {}

  package var state: State {
    last.withLock { last in
      guard case .ok = last.state, last.seesNoRow else { return last.state }
      return .misconfigured(code: ProfileStoreTrouble.noRowsVisible)
    }
  }

  func note(_ check: ProfileStoreCheck) {
    last.withLock { last in
      switch check {
      case .ok: last = Observation(state: .ok)
      case .misconfigured(let trouble) where trouble.isAboutHiddenRows: last = Observation(state: .ok, seesNoRow: true)
      case .misconfigured(let trouble): last.state = .misconfigured(code: trouble.code)
      case .unavailable(let trouble): last.state = .unavailable(code: trouble.code)
      }
    }
  }

  func note(_ outcome: ProfileWriteOutcome, of user: UserID) {
    last.withLock { last in
      switch outcome {
      case .applied, .superseded: last = Observation(state: .ok)
      case .noSuchProfile, .refused: last.state = .ok
      // Told before the database asks whether we may.
      case .impossibleUserID: if case .unavailable = last.state { last.state = .ok }
      case .misconfigured(let trouble): last.state = .misconfigured(code: trouble.code)
      case .unavailable(let trouble, _) where trouble.code == GuardedProfileStore.refusal: break
      // One row that somebody has locked is not a store that is away; a second user's is.
      case .unavailable(let trouble, _) where trouble.mayBeOneRows && last.suspect ?? user == user:
        last.suspect = user
        if last.state != .ok { last.state = .unavailable(code: trouble.code) }
      // A column that is unknown may become known within a minute. Where the look at the start has told it, it stays told.
      case .unavailable(let trouble, _) where last.state == .misconfigured(code: trouble.code): break
      case .unavailable(let trouble, _): last.state = .unavailable(code: trouble.code)
      }
    }
  }
}
