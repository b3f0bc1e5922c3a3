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
/// The longest due receipt is tried alone, then several at a time. Once Apple is away, one is tried at a time, and sweeps get
/// rarer, until Apple answers anybody. Where the breaker had opened, that makes due what the outage put off:
///
///     sweeps in vain  0     1     2     3     4 …
///     pause           1 s   2 s   4 s   8 s  10 s
///
/// The circuit breaker decides whether Apple is called. A receipt that fails is put back by itself (`retry`), behind those
/// that are due. Attempts in an outage are not counted, and put no receipt off for long. One
/// that Apple calls malformed, or has trouble with, ends no sweep: the trouble may concern this receipt only, and the others
/// must not wait for it.
///
/// A receipt that Apple does not authenticate (21003) counts for nothing from then on, and stays queued for a week: it was
/// acknowledged, so that the app posts it no more, and Apple has rejected intact receipts before. One whose signature is
/// refuted here as well is removed. One that the configuration refuses, by its bundle IDs for instance, is kept as long: the
/// configuration may be a mistake.
struct PendingSettler: Service {
  enum Outcome: Hashable, Sendable {
    case done
    case more
    /// Apple is away, or was and has not shown that it is back.
    case away
    case failed
  }

  struct Course: Hashable {
    /// Apple did not answer when it last was asked. An empty sweep shows nothing of it.
    var isAppleAway = false
    /// The circuit breaker has opened since Apple last answered. One receipt that Apple has trouble with is no outage.
    var isOutage = false
    /// Sweeps in vain, in a row.
    var failures = 0
    /// The grants and periods that did not end in the last sweep, as their users cannot be read.
    var unreadable: Set<String> = []
  }

  private enum End: Hashable {
    case settled
    /// Apple does not authenticate the receipt, or the configuration refuses it, and it is kept for now.
    case rejected
    /// Apple has trouble, possibly with this receipt only.
    case troubled
    /// Production does not wait for the sandbox.
    case sandboxAway
    /// - Parameter wasAsked: `false` where no call was made, by the breaker for instance.
    case away(wasAsked: Bool)

    var isAway: Bool { if case .away = self { true } else { false } }
  }

  var validator: ReceiptValidator
  var ledger: Ledger
  var logger: Logger
  var now: @Sendable () -> Date
  /// Whether Apple was away when it last was called.
  var isAppleDoubtful: @Sendable () -> Bool
  /// Whether time may end what was given.
  var isClockConfirmed: @Sendable () -> Bool
  /// The pause after a sweep without failure.
  var pause: Duration = .seconds(1)

  private var verdicts: VerdictContext { validator.verdicts }

  static let longestPause: Duration = .seconds(10)
  /// The pauses before a pending receipt is tried again: 10 s after the first failure, doubling, at most six hours.
  static let retry = Backoff(base: .seconds(10), cap: .seconds(6 * 3600))
  /// The longest of them after an attempt while Apple was away.
  static let longestRetryWhileAway: Duration = .seconds(600)
  /// The waits that Apple's return ends: not those of a receipt that has failed often, maybe for its own sake.
  static let recall: Duration = .seconds(60)
  /// The time for which a receipt is kept that Apple does not authenticate or the configuration refuses, from its arrival.
  static let rejectedHold: Duration = .seconds(7 * 86_400)
  /// Receipts read from the ledger at once.
  static let batch = 50
  /// Receipts that Apple is asked about at the same time: few, as callers come first.
  static let width = 8

  func run() async throws {
    await cancelWhenGracefulShutdown {
      var course = Course()
      await repeatUntilCancelled { await turn(&course) }
    }
  }

  /// - Returns: the pause until the next turn; `nil`: none.
  func turn(_ course: inout Course) async -> Duration? {
    let hasAnswered = validator.gateway.appStoreHealth.state == .answering
    let isDoubtful = isAppleDoubtful()
    course.isAppleAway = isDoubtful || (course.isAppleAway && !hasAnswered)
    let isBack = course.isOutage && !course.isAppleAway
    course.isOutage = isDoubtful || (course.isOutage && !isBack)
    let isEnded = isClockConfirmed() ? await endGiven(&course.unreadable) : true
    let outcome = await sweep(whileAway: course.isAppleAway, recalling: isBack)
    switch outcome {
    case .done where !isEnded: course.failures += 1
    case .more:
      course.failures = 0
      return nil
    case .done: course.failures = 0
    case .away:
      course.isAppleAway = true
      course.failures += 1
    case .failed: course.failures += 1
    }
    return Backoff(base: pause, cap: Self.longestPause).ceiling(after: course.failures)
  }

  /// Tries the receipts that are due; one of them while Apple is away.
  private func sweep(whileAway isAway: Bool, recalling: Bool) async -> Outcome {
    do throws(LedgerError) {
      if recalling { try await ledger.makePendingDue(at: now(), within: Self.recall) }
      let limit = isAway ? 1 : Self.batch
      let due = try await ledger.pendingReceipts(dueAt: now(), limit: limit)
      guard let first = due.first else { return .done }
      var ends = [try await settle(first, whileAway: isAway)]
      if !ends.contains(where: \.isAway) { ends += await settle(due.dropFirst()) }
      if ends.count < due.count { try await ledger.giveBackPending(due.dropFirst(ends.count), at: now()) }
      guard !ends.contains(where: \.isAway), !isAway || ends != [.troubled] else { return .away }
      return due.count == limit ? .more : .done
    } catch {
      logger.warning("pending receipts cannot be read or written", metadata: ["error": "\(error)"])
      return .failed
    }
  }

  /// Ends what is over. What cannot be ended is logged once, and holds up nothing.
  ///
  /// - Returns: whether the ledger was there.
  private func endGiven(_ known: inout Set<String>) async -> Bool {
    var unreadable: Set<String> = []
    do throws(LedgerError) {
      let ended = try await ledger.endProvisional(verdicts.evaluationContext) { keys in
        unreadable.formUnion(keys.map { "grant \($0.originalTransactionID.rawValue)" })
      }
      if ended > 0 { logger.notice("provisional grants ended", metadata: ["grants": .stringConvertible(ended)]) }
      let over = try await ledger.endOverdueGiven(verdicts.evaluationContext) { periods in
        unreadable.formUnion(periods.map { "period \($0)" })
      }
      if over > 0 { logger.notice("grants and trials ended", metadata: ["periods": .stringConvertible(over)]) }
    } catch {
      logger.warning("grants and trials cannot be ended", metadata: ["error": "\(error)"])
      return false
    }
    if !unreadable.isSubset(of: known) {
      logger.error(
        "grants and trials do not end: their users cannot be read",
        metadata: ["rows": "\(unreadable.sorted().joined(separator: ", "))"])
    }
    known = unreadable
    return true
  }

  /// Tries several at a time, until Apple turns out to be away.
  private func settle(_ receipts: ArraySlice<PendingReceipt>) async -> [End] {
    await mapConcurrently(receipts, width: Self.width, while: { !$0.isAway }) { receipt in
      do throws(LedgerError) { return try await settle(receipt, whileAway: false) } catch {
        logger.warning("pending receipts cannot be read or written", metadata: ["error": "\(error)"])
        return .away(wasAsked: false)
      }
    }
  }

  private func settle(_ receipt: PendingReceipt, whileAway isAway: Bool) async throws(LedgerError) -> End {
    let end = await attempt(receipt)
    let pause = Self.retry.ceiling(after: receipt.attempts)
    let next = now().advanced(by: pause)
    let soon = now().advanced(by: min(pause, Self.longestRetryWhileAway))
    do throws(LedgerError) {
      try await note(end, of: receipt, next: next, soon: soon, whileAway: isAway)
      return end
    } catch {
      guard case .unusable(let problem) = error else { throw error }
      logUnusable(receipt, problem)
      try await ledger.retryPending(receipt.id, at: next)
      return .troubled
    }
  }

  /// The user cannot be read, say. Such a receipt holds up no other.
  private func logUnusable(_ receipt: PendingReceipt, _ problem: String) {
    logger.error(
      "a pending receipt cannot be settled, and waits",
      metadata: ["request_id": "\(receipt.requestID)", "error": "\(problem)"])
  }

  private func note(
    _ end: End, of receipt: PendingReceipt, next: Date, soon: Date, whileAway isAway: Bool
  ) async throws(LedgerError) {
    switch end {
    case .settled: try await ledger.run(SettlePending(receipt.id, verdicts.evaluationContext))
    case .rejected: try await ledger.run(RefusePending(receipt.id, retryAt: next, verdicts.evaluationContext))
    case .troubled: try await ledger.retryPending(receipt.id, at: isAway ? soon : next, isCounted: !isAway)
    case .sandboxAway: try await ledger.retryPending(receipt.id, at: soon)
    case .away(let wasAsked): try await ledger.retryPending(receipt.id, at: soon, isCounted: wasAsked && !isAway)
    }
  }

  private func attempt(_ receipt: PendingReceipt) async -> End {
    var logger = logger
    logger[metadataKey: "request_id"] = "\(receipt.requestID)"
    let submission = ReceiptSubmission(
      user: receipt.user, proof: .receipt(receipt.base64), requestID: receipt.requestID)
    do throws(ValidationError) {
      _ = try await validator.validate(submission, .settlement(receipt.id), logger: logger)
      return .settled
    } catch {
      switch error {
      case .appStoreUnavailable(.unavailable(_, _, .circuitOpen(.sandbox, _))): return .sandboxAway
      case .appStoreUnavailable(.unavailable(_, _, .circuitOpen)): return .away(wasAsked: false)
      case .appStoreUnavailable(let cause):
        return cause.mayConcernThisReceiptOnly || cause.mayBeProvoked ? .troubled : .away(wasAsked: true)
      case .ledgerUnavailable(.unusable(let problem)):
        logUnusable(receipt, problem)
        return .troubled
      case .overloaded, .ledgerUnavailable, .cancelled: return .away(wasAsked: false)
      // Another receipt comes first and is on its way, our clock has to be corrected, or a newer version can read it or knows
      // its ownership. No key is shown here.
      case .heldBack, .clockBehind, .keyOfAnotherApp, .unreadableSignedData, .ofUnknownOwnership: return .troubled
      case .notAuthentic(_, appleStatus: .some) where isHeld(receipt) && !validator.refutes(receipt.base64):
        logger.notice("a pending receipt was refused, and waits", metadata: ["problem": "\(error.code)"])
        return .rejected
      case _ where error.dependsOnConfiguration && isHeld(receipt):
        logger.warning(
          "a pending receipt is refused by the configuration, and waits", metadata: ["problem": "\(error.code)"])
        return .rejected
      case .undecodableReceipt, .unsupportedReceipt, .notAuthentic, .wrongApp, .sandboxRefused, .ownedByAnotherUser,
        .unknownTransaction, .notAskable:
        // Apple or our own policy refuses it: there is nothing to wait for.
        logger.notice("a pending receipt was refused", metadata: ["problem": "\(error.code)"])
        return .settled
      }
    }
  }

  /// Whether a receipt that is refused is kept for now.
  private func isHeld(_ receipt: PendingReceipt) -> Bool {
    !isClockConfirmed() || now() < receipt.receivedAt.advanced(by: Self.rejectedHold)
  }
}

extension ValidationError {
  /// Whether another configuration may accept the same receipt: bundle IDs, policies, roots, or keys for asking Apple.
  fileprivate var dependsOnConfiguration: Bool {
    switch self {
    case .wrongApp, .sandboxRefused, .notAuthentic(_, appleStatus: nil), .unsupportedReceipt, .notAskable: true
    case .notAuthentic(_, appleStatus: .some), .undecodableReceipt, .unreadableSignedData, .keyOfAnotherApp,
      .ownedByAnotherUser, .ofUnknownOwnership, .unknownTransaction, .clockBehind, .appStoreUnavailable, .overloaded,
      .ledgerUnavailable, .cancelled, .heldBack:
      false
    }
  }
}
