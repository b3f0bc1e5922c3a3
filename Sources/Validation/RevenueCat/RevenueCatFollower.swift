import Entitlements
import Ledger
import Logging
import Resilience
import ServiceLifecycle

import struct FoundationEssentials.Date

/// The job that follows what RevenueCat reported: it asks Apple again about hints, ends what counted for a while, and
/// brings users' rows up to date when time alone changes what a purchase at another store gives. It never asks anybody
/// about those. Of several replicas one follows at a time, so that Apple is asked once.
struct RevenueCatFollower: Service {
  /// The most of each kind in one sweep.
  static let batch = 100
  /// The pause before a change that could not be recorded is tried again.
  static let retry: Duration = .seconds(600)
  /// The pause before a purchase that cannot be read is looked at again.
  private static let unreadable: Duration = .seconds(86_400)

  var check: SubscriptionCheck
  var ledger: Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  var pacer: Pacer
  var pause: Duration
  var lease: JobLease

  func run() async throws {
    await cancelWhenGracefulShutdown {
      await repeatUntilCancelled { await sweep() == 0 ? pause : nil }
    }
    await lease.release()
  }

  /// - Returns: the number of purchases and reports that were looked at.
  func sweep() async -> Int {
    do throws(LedgerError) {
      guard try await ledger.hasRevenueCatWork(dueAt: now()), await lease.take(at: now()) else { return 0 }
      let turns = try await ledger.revenueCatTurns(dueAt: now(), limit: Self.batch)
      for turn in turns {
        guard await lease.take(at: now()) else { return 0 }
        try await follow(turn)
      }
      let reports = try await ledger.dueReports(at: now(), limit: Self.batch, onUnreadable: logUnreadable)
      for report in reports {
        switch report {
        case .hint(let hint):
          guard await pacer.turn(), await lease.take(at: now()) else { return 0 }
          await RevenueCatHintCheck(validator: check.validator, ledger: ledger).ask(about: hint, logger: logger)
        case .over(let key):
          do throws(LedgerError) {
            try await ledger.run(SettleReport(key, upTo: now(), check.validator.verdicts.evaluationContext))
          } catch {
            guard case .unusable = error else { throw error }
            logUnreadable([key])
            try await ledger.putOffReport(key, at: now())
          }
        }
      }
      return turns.count + reports.count
    } catch {
      logger.warning("RevenueCat's reports cannot be processed", metadata: ["error": "\(error)"])
      return 0
    }
  }

  private func logUnreadable(_ keys: [SubscriptionKey]) {
    logger.error(
      "reports of RevenueCat's in the ledger cannot be read, and are put off",
      metadata: ["original_transaction_ids": "\(keys.map(\.originalTransactionID))"])
  }

  private func follow(_ turn: RevenueCatTurn) async throws(LedgerError) {
    let rules = check.validator.verdicts.rules
    // Read before the verdict: what time brings meanwhile is due at the next look.
    let moment = now()
    switch await check.followTime(of: turn.owner, requestID: "store-time", logger: logger) {
    case .recorded, .judgedAnew, .refused:
      do throws(LedgerError) {
        try await ledger.followed(turn.key, at: moment) { evidence, now in rules.nextTurn(of: evidence, after: now) }
      } catch {
        guard case .unusable = error else { throw error }
        logUnreadable([turn.key])
        try await ledger.postponeTurn(of: turn.key, until: now().advanced(by: Self.unreadable))
      }
    case .heldBack, .troubled, .away, .cancelled:
      try await ledger.postponeTurn(of: turn.key, until: now().advanced(by: Self.retry))
    }
  }
}
