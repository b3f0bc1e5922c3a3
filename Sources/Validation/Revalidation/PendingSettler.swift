import Entitlements
package import Ledger
package import Logging
import Resilience
import ServiceLifecycle

package import struct FoundationEssentials.Date

/// Settles receipts that were acknowledged while Apple could not be asked, and ends provisional grants whose time is over.
///
/// The one that waits longest is tried alone, and finds out whether Apple is back; then several at a time. The first that
/// fails ends the sweep, and sweeps come more rarely while Apple stays away:
///
///     failed sweeps   0     1     2     3     4 …
///     pause          1 s   2 s   4 s   8 s  10 s
///
/// Whether Apple is really called is the circuit breaker's decision: while it is open a sweep costs nothing. A receipt that
/// fails is put back by itself as well (`retry`). One of which Apple answers that it is malformed, or that there is
/// trouble with it, ends no sweep: it may be this one only, and the others must not wait for it. The first success after a
/// failure makes all of them due at once, as Apple is back.
package struct PendingSettler: Service {
  enum Outcome: Hashable, Sendable {
    /// No receipt is due.
    case done
    case more
    /// Apple, or the ledger, is away.
    case failed
  }

  package var validator: ReceiptValidator
  package var ledger: any Ledger
  package var logger: Logger
  package var now: @Sendable () -> Date
  /// The pause after a sweep in which nothing failed.
  package var pause: Duration = .seconds(1)

  package init(
    validator: ReceiptValidator, ledger: any Ledger, logger: Logger, now: @escaping @Sendable () -> Date,
    pause: Duration = .seconds(1)
  ) {
    self.validator = validator
    self.ledger = ledger
    self.logger = logger
    self.now = now
    self.pause = pause
  }

  static let longestPause: Duration = .seconds(10)
  /// When a pending receipt is tried again: 10 s after the first failure, doubling, at most six hours.
  static let retry = Backoff(base: .seconds(10), cap: .seconds(6 * 3600))
  /// Receipts read from the ledger at once.
  static let batch = 50
  /// Receipts that Apple is asked about at the same time: few, as callers come first.
  package static let width = 8

  package func run() async throws {
    await cancelWhenGracefulShutdown {
      var failedSweeps = 0
      await repeatUntilCancelled {
        switch await sweep(afterFailure: failedSweeps > 0) {
        case .more:
          failedSweeps = 0
          return nil
        case .done: failedSweeps = 0
        case .failed: failedSweeps += 1
        }
        return Backoff(base: pause, cap: Self.longestPause).ceiling(after: failedSweeps)
      }
    }
  }

  /// Tries what is due.
  func sweep(afterFailure: Bool) async -> Outcome {
    do throws(LedgerError) {
      let ended = try await ledger.endProvisional(validator.evaluationContext)
      if ended > 0 { logger.notice("provisional grants are over", metadata: ["grants": .stringConvertible(ended)]) }
      let due = try await ledger.pendingReceipts(dueAt: now(), limit: Self.batch)
      guard let first = due.first else { return .done }
      guard try await settle(first) else { return .failed }
      if afterFailure { try await ledger.makePendingDue(at: now()) }
      guard await settle(due.dropFirst()) else { return .failed }
      return due.count == Self.batch || afterFailure ? .more : .done
    } catch {
      logger.warning("pending receipts cannot be read or written", metadata: ["error": "\(error)"])
      return .failed
    }
  }

  /// Several at a time, until one fails.
  private func settle(_ receipts: ArraySlice<PendingReceipt>) async -> Bool {
    let results = await mapConcurrently(receipts, width: Self.width, while: { $0 }) { receipt in
      do throws(LedgerError) { return try await settle(receipt) } catch {
        logger.warning("pending receipts cannot be read or written", metadata: ["error": "\(error)"])
        return false
      }
    }
    return !results.contains(false)
  }

  /// Trouble that Apple may have with one receipt and not with the next: malformed, not authentic and not said twice,
  /// internal error, internal data access error; of the Server API, a purchase that is not found for now, and an internal error.
  static func mayBeTheReceipt(_ appleStatus: Int) -> Bool {
    switch appleStatus {
    case 21002, 21003, 21009, 21100...21199: true
    case 4_040_002, 4_040_004, 4_040_006, 5_000_000, 5_000_001: true
    default: false
    }
  }

  /// - Returns: whether Apple is there.
  private func settle(_ receipt: PendingReceipt) async throws(LedgerError) -> Bool {
    var logger = logger
    logger[metadataKey: "request_id"] = "\(receipt.requestID)"
    let submission = ReceiptSubmission(
      user: receipt.user, proof: .receipt(receipt.base64), requestID: receipt.requestID)
    var isSettled = false
    var isAppleThere = true
    do throws(ValidationError) {
      _ = try await validator.validate(submission, .settlement(receipt.id), logger: logger)
      isSettled = true
    } catch {
      switch error {
      case .appStoreUnavailable(let appleStatus): isAppleThere = appleStatus.map(Self.mayBeTheReceipt) ?? false
      case .overloaded, .ledgerUnavailable, .cancelled: isAppleThere = false
      // Another receipt comes first, and is on its way; or our clock has to be set right.
      case .heldBack, .clockBehind: break
      case .undecodableReceipt, .unsupportedReceipt, .notAuthentic, .wrongApp, .sandboxRefused, .ownedByAnotherUser,
        .unknownTransaction, .notAskable:
        // Apple's word, or our own policy's: there is nothing to wait for.
        logger.notice("a pending receipt was refused", metadata: ["problem": "\(error.code)"])
        isSettled = true
      }
    }
    if isSettled {
      try await ledger.settlePending(receipt.id, validator.evaluationContext)
    } else {
      try await ledger.retryPending(receipt.id, at: now().advanced(by: Self.retry.ceiling(after: receipt.attempts)))
    }
    return isAppleThere
  }
}
