import Entitlements
import Ledger
import Logging
import ServiceLifecycle

import struct FoundationEssentials.Date

/// Settles receipts that were acknowledged while Apple could not be asked.
///
/// One is tried at a time. The first that fails again ends the sweep, and sweeps come more rarely while Apple stays away:
///
///     failed sweeps   0     1     2     3     4     5     6 …
///     pause          1 s   2 s   4 s   8 s  16 s  32 s  60 s
///
/// so that an outage costs Apple about one validation a minute. A receipt that fails is put back by itself as well
/// (`RetrySchedule`), so that one which Apple never answers cannot keep the others waiting.
struct PendingSettler: Service {
  var validator: ReceiptValidator
  var ledger: any Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  /// The pause after a sweep in which nothing failed.
  var pause: Duration = .seconds(1)

  static let longestPause: Duration = .seconds(60)
  /// Receipts read from the ledger at once.
  static let sweepLimit = 50

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var failedSweeps = 0
      while !Task.isCancelled {
        failedSweeps = await sweep() ? 0 : failedSweeps + 1
        let pause = min(pause * (1 << min(failedSweeps, 16)), Self.longestPause)
        // Ended only by the shutdown.
        do { try await Task.sleep(for: pause) } catch { return }
      }
    }
  }

  /// Tries what is due; `false` when Apple (or the ledger) is still away.
  func sweep() async -> Bool {
    do throws(LedgerError) {
      for receipt in try await ledger.pendingReceipts(dueAt: now(), limit: Self.sweepLimit) {
        guard !Task.isCancelled else { return true }
        guard try await settle(receipt) else { return false }
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
      let settled = try await validator.validate(submission, .settle, logger: logger)
      isSettled = !settled.isFromLedger
    } catch {
      switch error {
      case .appStoreUnavailable, .overloaded, .ledgerUnavailable, .cancelled:
        isSettled = false
      case .undecodableReceipt, .unsupportedReceipt, .notAuthentic, .wrongApp, .sandboxRefused, .ownedByAnotherUser,
        .unknownTransaction:
        // Apple's word, or our own policy's: there is nothing to wait for.
        logger.notice("a pending receipt was refused", metadata: ["problem": "\(Problem(error).code.rawValue)"])
        isSettled = true
      }
    }
    if isSettled {
      try await ledger.settlePending(receipt.id)
    } else {
      try await ledger.retryPending(receipt.id, at: now().advanced(by: RetrySchedule.delay(after: receipt.attempts)))
    }
    return isSettled
  }
}
