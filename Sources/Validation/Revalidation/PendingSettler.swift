import AppStore
import Entitlements
import Ledger
import Logging
import Resilience
import ServiceLifecycle

import struct FoundationEssentials.Date

/// The job that settles receipts which were acknowledged while Apple could not be asked, and that ends provisional
/// grants and given periods when they are over.
///
/// The oldest receipt is tried alone, and shows whether Apple is back; then several at a time. The first failure ends
/// the sweep, and sweeps get rarer while Apple is away:
///
///     failed sweeps   0     1     2     3     4 …
///     pause          1 s   2 s   4 s   8 s  10 s
///
/// The circuit breaker decides whether Apple is called: while it is open a sweep costs nothing. A receipt that fails is
/// also put back by itself (`retry`). One that Apple calls malformed, or has trouble with, ends no sweep: the trouble
/// may concern this receipt only, and the others must not wait for it. The first success after a failure makes all of
/// them due.
///
/// A receipt that Apple does not authenticate (21003) counts for nothing from then on, and stays queued for a week: it was
/// acknowledged, so that the app posts it no more, and Apple has rejected intact receipts before. One whose signature is
/// refuted here as well is removed.
struct PendingSettler: Service {
  enum Outcome: Hashable, Sendable {
    /// No receipt is due.
    case done
    case more
    /// Apple or the ledger is unavailable.
    case failed
  }

  var validator: ReceiptValidator
  var ledger: Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  /// The pause after a sweep without failure.
  var pause: Duration = .seconds(1)

  private var verdicts: VerdictContext { validator.verdicts }

  static let longestPause: Duration = .seconds(10)
  /// The pauses before a pending receipt is tried again: 10 s after the first failure, doubling, at most six hours.
  static let retry = Backoff(base: .seconds(10), cap: .seconds(6 * 3600))
  /// The time for which Apple is asked again about a receipt that it does not authenticate, from its arrival.
  static let rejectedHold: Duration = .seconds(7 * 86_400)
  /// Receipts read from the ledger at once.
  static let batch = 50
  /// Receipts that Apple is asked about at the same time: few, as callers come first.
  static let width = 8

  func run() async throws {
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

  /// Tries the receipts that are due.
  func sweep(afterFailure: Bool) async -> Outcome {
    do throws(LedgerError) {
      let ended = try await ledger.endProvisional(verdicts.evaluationContext)
      if ended > 0 { logger.notice("provisional grants ended", metadata: ["grants": .stringConvertible(ended)]) }
      let over = try await ledger.endOverdueGiven(verdicts.evaluationContext)
      if over > 0 { logger.notice("grants and trials ended", metadata: ["periods": .stringConvertible(over)]) }
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

  /// Tries several at a time, until one fails.
  private func settle(_ receipts: ArraySlice<PendingReceipt>) async -> Bool {
    let results = await mapConcurrently(receipts, width: Self.width, while: { $0 }) { receipt in
      do throws(LedgerError) { return try await settle(receipt) } catch {
        logger.warning("pending receipts cannot be read or written", metadata: ["error": "\(error)"])
        return false
      }
    }
    return !results.contains(false)
  }

  /// - Returns: whether Apple is available.
  private func settle(_ receipt: PendingReceipt) async throws(LedgerError) -> Bool {
    var logger = logger
    logger[metadataKey: "request_id"] = "\(receipt.requestID)"
    let submission = ReceiptSubmission(
      user: receipt.user, proof: .receipt(receipt.base64), requestID: receipt.requestID)
    var isSettled = false
    var isRejected = false
    var isAppleThere = true
    do throws(ValidationError) {
      _ = try await validator.validate(submission, .settlement(receipt.id), logger: logger)
      isSettled = true
    } catch {
      switch error {
      case .appStoreUnavailable(let cause): isAppleThere = cause.mayConcernThisReceiptOnly
      case .overloaded, .ledgerUnavailable, .cancelled: isAppleThere = false
      // Another receipt comes first and is on its way, or our clock has to be corrected. No key is shown here.
      case .heldBack, .clockBehind, .keyOfAnotherApp: break
      case .notAuthentic(_, appleStatus: .some) where mayBeAuthentic(receipt):
        logger.notice("a pending receipt was refused, and waits", metadata: ["problem": "\(error.code)"])
        isRejected = true
      case .undecodableReceipt, .unsupportedReceipt, .notAuthentic, .wrongApp, .sandboxRefused, .ownedByAnotherUser,
        .ofUnknownOwnership, .unknownTransaction, .notAskable:
        // Apple or our own policy refuses it: there is nothing to wait for.
        logger.notice("a pending receipt was refused", metadata: ["problem": "\(error.code)"])
        isSettled = true
      }
    }
    let next = now().advanced(by: Self.retry.ceiling(after: receipt.attempts))
    if isSettled {
      try await ledger.run(SettlePending(receipt.id, verdicts.evaluationContext))
    } else if isRejected {
      try await ledger.run(RefusePending(receipt.id, retryAt: next, verdicts.evaluationContext))
    } else {
      try await ledger.retryPending(receipt.id, at: next)
    }
    return isAppleThere
  }

  /// Whether Apple may still authenticate a receipt that it has rejected.
  private func mayBeAuthentic(_ receipt: PendingReceipt) -> Bool {
    now() < receipt.receivedAt.advanced(by: Self.rejectedHold) && !validator.refutes(receipt.base64)
  }
}
