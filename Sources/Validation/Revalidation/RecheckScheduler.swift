import Entitlements
import Ledger
import Logging
import Resilience
import ServiceLifecycle

import struct FoundationEssentials.Date

/// The job that asks Apple again about subscriptions that may change: at the end of a paid period, in grace and in
/// billing retry.
///
/// Work is claimed from the ledger, and a claim without a result is due again by itself: after a crash, after an answer
/// without the subscription. An outage costs one claim: then one subscription at a time shows whether Apple is back. Calls
/// are paced together with those of runs. If more verdicts would lower a tier than can be right
/// (`revalidation.max_downgrades`), the brake holds them back; renewals are still recorded, as paying users would lose
/// access otherwise.
///
/// While Apple is away for longer than a state is held, it brings the app's rows to what reads say by time alone.
struct RecheckScheduler: Service {
  var check: SubscriptionCheck
  var ledger: Ledger
  var brake: DowngradeBrakeService
  var logger: Logger
  var now: @Sendable () -> Date
  /// Whether calls to Apple are useless now: claims are not spent on an outage.
  var isAppleAway: @Sendable () -> Bool
  /// Whether Apple was away when it last was called.
  var isAppleDoubtful: @Sendable () -> Bool
  /// Whether what was missed before the start is known: asked first, Apple would only tell how it ended.
  var mayBegin: @Sendable () -> Bool = { true }
  var pacer: Pacer
  var pause: Duration = .seconds(1)

  static let batch = 20

  func run() async throws {
    await cancelWhenGracefulShutdown {
      await brake.announce(logger)
      await scheduleMissing()
      var isProbing = false
      await repeatUntilCancelled {
        let count = await sweep(probing: isProbing)
        isProbing = count == nil
        return count ?? 0 == 0 ? pause : nil
      }
    }
  }

  /// Schedules checks that were impossible before, for want of a key for instance.
  private func scheduleMissing() async {
    do throws(LedgerError) {
      let count = try await ledger.scheduleMissing(
        by: check.validator.rules, at: now(), limit: 500, onUnreadable: logUnreadable)
      if count > 0 {
        logger.notice("Apple answers about subscriptions again", metadata: ["subscriptions": .stringConvertible(count)])
      }
    } catch {
      logger.warning("due subscriptions cannot be read", metadata: ["error": "\(error)"])
    }
  }

  private func logUnreadable(_ rows: [Int64]) {
    logger.error(
      "purchases in the ledger cannot be read, and are not checked",
      metadata: ["rows": "\(rows.map(String.init).joined(separator: " "))"])
  }

  /// Asks about the subscriptions that are due; while Apple is away, ends holds that are over.
  ///
  /// - Parameter probing: whether Apple was away; one subscription then shows whether it still is.
  /// - Returns: the number of subscriptions asked about, or of users evaluated again; `nil` if Apple or the ledger is
  ///   unavailable.
  func sweep(probing: Bool = false) async -> Int? {
    guard !isAppleAway() else { return await endHolds() }
    guard mayBegin() else { return 0 }
    let isProbe = probing || isAppleDoubtful()
    do throws(LedgerError) {
      let due = try await ledger.claimRechecks(
        dueAt: now(), limit: isProbe ? 1 : Self.batch, onUnreadable: logUnreadable)
      guard !due.isEmpty else { return probing ? nil : 0 }
      var (checked, isAway) = (0, false)
      for recheck in due {
        guard !isAway, await pacer.turn(), !isAppleAway() else { break }
        isAway = try await !ask(recheck, isProbe: isProbe)
        checked += 1
      }
      try await ledger.giveBack(due.dropFirst(checked))
      if checked > 0 { await brake.keep(logger) }
      return isAway ? nil : checked
    } catch {
      logger.warning("due subscriptions cannot be read or written", metadata: ["error": "\(error)"])
      return nil
    }
  }

  /// Ends holds that are over, without claiming a check: once Apple is back, everything due is asked about.
  private func endHolds() async -> Int {
    let hold = check.validator.verdicts.rules.policy.outageHold
    let overdue: [UserID]
    do throws(LedgerError) {
      overdue = try await ledger.usersOverdue(since: now().advanced(by: .zero - hold), limit: Self.batch)
    } catch {
      logger.warning("due subscriptions cannot be read", metadata: ["error": "\(error)"])
      return 0
    }
    var ended = 0
    for user in overdue {
      guard await pacer.turn() else { break }
      if await check.followTime(of: user, requestID: "outage-hold", logger: logger) == .judgedAnew(changed: true) {
        ended += 1
      }
    }
    if ended > 0 { await brake.keep(logger) }
    return ended
  }

  /// - Returns: whether Apple and the ledger are available.
  private func ask(_ recheck: Recheck, isProbe: Bool) async throws(LedgerError) -> Bool {
    let requestID = "recheck-\(recheck.key.originalTransactionID.rawValue)-\(recheck.attempts)"
    var logger = logger
    logger[metadataKey: "request_id"] = "\(requestID)"
    let moment = now()
    let outcome = await check.ask(
      about: recheck.key, of: recheck.owner, recheck.receipt, requestID: requestID, logger: logger)
    // Unless an answer says when to ask again, the claim does, or the time that changes the verdict.
    if outcome != .cancelled {
      let rules = check.validator.verdicts.rules
      try await ledger.bringForward(recheck, at: moment) { evidence, now in
        rules.nextTurn(of: evidence, after: now, before: recheck.dueAgainAt)
      }
    }
    switch outcome {
    case .recorded, .judgedAnew, .heldBack, .refused: return true
    // Production does not wait for the sandbox.
    case .away where recheck.key.environment == .sandbox && !isAppleDoubtful(): return true
    case .troubled where !isAppleDoubtful(): return true
    case .troubled, .away:
      // The one that shows the beginning is counted: it may fail for its own sake.
      if isProbe { try await ledger.retrySoon(recheck, at: now()) }
      return false
    case .cancelled:
      try await ledger.giveBack([recheck])
      return false
    }
  }
}
