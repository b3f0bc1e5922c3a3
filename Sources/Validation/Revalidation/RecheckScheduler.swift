import Entitlements
import Ledger
import Logging
import Resilience
import ServiceLifecycle

import struct FoundationEssentials.Date

/// The job that asks Apple again about subscriptions that may change: at the end of a paid period, in grace and in
/// billing retry.
///
/// Work is claimed from the ledger, and a claim without a result is due again by itself: after a crash, while Apple is
/// away, after an answer without the subscription. Calls are paced together with those of runs. If more verdicts would
/// lower a tier than can be right (`revalidation.max_downgrades`), the brake holds them back; renewals are still
/// recorded, as paying users would lose access otherwise.
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
  /// Whether what was missed before the start is known: asked first, Apple would only tell how it ended.
  var mayBegin: @Sendable () -> Bool = { true }
  var pacer: Pacer
  /// The pause after a sweep that found nothing.
  var pause: Duration = .seconds(1)

  static let batch = 20

  func run() async throws {
    await cancelWhenGracefulShutdown {
      await brake.announce(logger)
      await scheduleMissing()
      await repeatUntilCancelled { await sweep() == 0 ? pause : nil }
    }
  }

  /// Schedules checks that were impossible before, for want of a key for instance.
  private func scheduleMissing() async {
    do throws(LedgerError) {
      let count = try await ledger.scheduleMissing(check.validator.verdicts.nextCheck, at: now(), limit: 500)
      if count > 0 {
        logger.notice("Apple answers about subscriptions again", metadata: ["subscriptions": .stringConvertible(count)])
      }
    } catch {
      logger.warning("due subscriptions cannot be read", metadata: ["error": "\(error)"])
    }
  }

  /// Asks about the subscriptions that are due; while Apple is away, ends holds that are over.
  ///
  /// - Returns: the number of subscriptions asked about, or of users evaluated again.
  func sweep() async -> Int {
    guard !isAppleAway() else { return await endHolds() }
    guard mayBegin() else { return 0 }
    let due: [Recheck]
    do throws(LedgerError) {
      due = try await ledger.claimRechecks(dueAt: now(), limit: Self.batch)
    } catch {
      logger.warning("due subscriptions cannot be read", metadata: ["error": "\(error)"])
      return 0
    }
    var checked = 0
    for recheck in due {
      // The remaining claims expire and become due again.
      guard await pacer.turn(), !isAppleAway() else { break }
      await ask(recheck)
      checked += 1
    }
    if checked > 0 { await brake.keep(logger) }
    return checked
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

  private func ask(_ recheck: Recheck) async {
    let requestID = "recheck-\(recheck.key.originalTransactionID.rawValue)-\(recheck.attempts)"
    var logger = logger
    logger[metadataKey: "request_id"] = "\(requestID)"
    // Unless an answer says when to ask again, the claim does.
    _ = await check.ask(about: recheck.key, of: recheck.owner, recheck.receipt, requestID: requestID, logger: logger)
  }
}
