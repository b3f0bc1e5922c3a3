import Entitlements
package import Ledger
package import Logging
import Resilience
import ServiceLifecycle

package import struct FoundationEssentials.Date

/// Asks Apple again about subscriptions whose state wants it: at the end of a paid period, through grace and billing retry.
///
/// Work is claimed from the ledger, and a claim that nothing came of is due again by itself: after a crash, while Apple is
/// away, after an answer that did not mention the subscription. Calls are paced, together with those of runs. When more
/// verdicts would lower a tier than can be right (`revalidation.max_downgrades`), the brake holds back those; renewals go on
/// being recorded, as to stop them would end the access of those who paid.
///
/// While Apple is away for longer than a state is held, it brings the app's rows to what reads say by time alone.
package struct RecheckScheduler: Service {
  package var check: SubscriptionCheck
  package var ledger: any Ledger
  package var brake: DowngradeBrakeService
  package var logger: Logger
  package var now: @Sendable () -> Date
  /// Whether Apple can be asked at all just now: claims are not spent on an outage.
  package var isAppleAway: @Sendable () -> Bool
  package var pacer: Pacer
  /// The pause after a sweep that found nothing.
  package var pause: Duration = .seconds(1)

  package init(
    check: SubscriptionCheck, ledger: any Ledger, brake: DowngradeBrakeService, logger: Logger,
    now: @escaping @Sendable () -> Date,
    isAppleAway: @escaping @Sendable () -> Bool, pacer: Pacer, pause: Duration = .seconds(1)
  ) {
    self.check = check
    self.ledger = ledger
    self.brake = brake
    self.logger = logger
    self.now = now
    self.isAppleAway = isAppleAway
    self.pacer = pacer
    self.pause = pause
  }

  static let batch = 20

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      await brake.announce(logger)
      await scheduleMissing()
      await repeatUntilCancelled { await sweep() == 0 ? pause : nil }
    }
  }

  /// Makes checks due that could not be made before, for want of a key for instance.
  private func scheduleMissing() async {
    do throws(LedgerError) {
      let count = try await ledger.scheduleMissing(check.validator.nextCheck, at: now(), limit: 500)
      if count > 0 {
        logger.notice("Apple answers about subscriptions again", metadata: ["subscriptions": .stringConvertible(count)])
      }
    } catch {
      logger.warning("due subscriptions cannot be read", metadata: ["error": "\(error)"])
    }
  }

  /// Asks about what is due; while Apple is away, ends what was held for long enough.
  /// - Returns: how many subscriptions were asked about, or users judged anew.
  func sweep() async -> Int {
    guard !isAppleAway() else { return await endHolds() }
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

  /// Ends holds without claiming a check: when Apple is back, everything due is asked about.
  private func endHolds() async -> Int {
    let hold = check.validator.gateway.rules.policy.outageHold
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
    // Whatever comes of it, the claim says when to ask again, unless an answer does.
    _ = await check.ask(about: recheck.key, of: recheck.owner, recheck.receipt, requestID: requestID, logger: logger)
  }
}
