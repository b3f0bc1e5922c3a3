import Entitlements
import Ledger
import Logging
import ServiceLifecycle

import struct FoundationEssentials.Date

/// Settles receipts that were acknowledged while Apple could not be asked, and ends provisional grants whose time is over.
///
/// One is tried at a time. The first that fails again ends the sweep, and sweeps come more rarely while Apple stays away:
///
///     failed sweeps   0     1     2     3     4 …
///     pause          1 s   2 s   4 s   8 s  10 s
///
/// Whether Apple is really called is the circuit breaker's decision: while it is open a sweep costs nothing. A receipt that
/// fails is put back by itself as well (`RetrySchedule`), so that one which Apple never answers cannot keep the others
/// waiting; the first success after a failure makes all of them due at once, as Apple is back.
struct PendingSettler: Service {
  var validator: ReceiptValidator
  var ledger: any Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  /// The pause after a sweep in which nothing failed.
  var pause: Duration = .seconds(1)

  static let longestPause: Duration = .seconds(10)
  /// Receipts read from the ledger at once.
  static let sweepLimit = 50

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var failedSweeps = 0
      while !Task.isCancelled {
        failedSweeps = await sweep(afterFailure: failedSweeps > 0) ? 0 : failedSweeps + 1
        let pause = min(pause * (1 << min(failedSweeps, 16)), Self.longestPause)
        // Ended only by the shutdown.
        do { try await Task.sleep(for: pause) } catch { return }
      }
    }
  }

  /// Tries what is due; `false` when Apple (or the ledger) is still away.
  func sweep(afterFailure: Bool) async -> Bool {
    do throws(LedgerError) {
      let ended = try await ledger.endProvisional(validator.rejudgement)
      if ended > 0 { logger.notice("provisional grants are over", metadata: ["grants": "\(ended)"]) }
      var isFirst = true
      for receipt in try await ledger.pendingReceipts(dueAt: now(), limit: Self.sweepLimit) {
        guard !Task.isCancelled else { return true }
        guard try await settle(receipt) else { return false }
        if isFirst, afterFailure { try await ledger.hastenPending(at: now()) }
        isFirst = false
      }
      return true
    } catch {
      logger.warning("pending receipts cannot be read or written", metadata: ["error": "\(error)"])
      return false
    }
  }

  private func settle(_ receipt: PendingReceipt) async throws(LedgerError) -> Bool {
    var logger = logger
    logger[metadataKey: "request_id"] = "\(receipt.requestID)"
    let submission = ReceiptSubmission(
      user: receipt.user, proof: .receipt(receipt.base64), requestID: receipt.requestID)
    let isSettled: Bool
    do throws(ValidationError) {
      let settled = try await validator.validate(submission, .settlement, logger: logger)
      isSettled = !settled.isFromLedger
    } catch {
      switch error {
      case .appStoreUnavailable, .overloaded, .ledgerUnavailable, .cancelled, .heldBack:
        isSettled = false
      case .undecodableReceipt, .unsupportedReceipt, .notAuthentic, .wrongApp, .sandboxRefused, .ownedByAnotherUser,
        .unknownTransaction:
        // Apple's word, or our own policy's: there is nothing to wait for.
        logger.notice("a pending receipt was refused", metadata: ["problem": "\(Problem(error).code.rawValue)"])
        isSettled = true
      }
    }
    if isSettled {
      try await ledger.settlePending(receipt.id, validator.rejudgement)
    } else {
      try await ledger.retryPending(receipt.id, at: now().advanced(by: RetrySchedule.delay(after: receipt.attempts)))
    }
    return isSettled
  }
}
