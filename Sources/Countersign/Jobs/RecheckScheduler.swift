import Entitlements
import Ledger
import Logging
import ServiceLifecycle

import struct FoundationEssentials.Date

/// Asks Apple again about subscriptions whose state wants it: at the end of a paid period, through grace and billing retry.
///
/// Work is claimed from the ledger, and a claim that nothing came of is due again by itself: after a crash, while Apple is
/// away, after an answer that did not mention the subscription. Calls are paced. When more verdicts would lower a tier than
/// can be right (`revalidation.max_downgrades`), the brake holds back those; renewals go on being recorded, as to stop them
/// would end the access of those who paid.
struct RecheckScheduler: Service {
  var validator: ReceiptValidator
  var ledger: any Ledger
  var brake: Brake
  var logger: Logger
  var now: @Sendable () -> Date
  /// Whether Apple can be asked at all just now: claims are not spent on an outage.
  var isAppleAway: @Sendable () -> Bool
  /// The most subscriptions asked about in a second (`revalidation.rate`).
  var rate: Int
  /// The pause after a sweep that found nothing.
  var pause: Duration = .seconds(1)

  static let batch = 20

  func run() async throws {
    await cancelWhenGracefulShutdown {
      await brake.announce(logger)
      while !Task.isCancelled {
        let checked = await sweep()
        guard checked == 0 else { continue }
        // Ended only by the shutdown.
        do { try await Task.sleep(for: pause) } catch { return }
      }
    }
  }

  /// Asks about what is due.
  /// - Returns: how many subscriptions were asked about.
  func sweep() async -> Int {
    guard !isAppleAway() else { return 0 }
    let due: [Recheck]
    do throws(LedgerError) {
      due = try await ledger.claimRechecks(dueAt: now(), limit: Self.batch)
    } catch {
      logger.warning("due subscriptions cannot be read", metadata: ["error": "\(error)"])
      return 0
    }
    var checked = 0
    for recheck in due {
      // What is left was claimed and is due again by itself.
      guard !Task.isCancelled, !isAppleAway() else { break }
      let begin = ContinuousClock.now
      await check(recheck)
      checked += 1
      try? await Task.sleep(until: begin.advanced(by: .seconds(1) / max(1, rate)), clock: .continuous)
    }
    if checked > 0 { await brake.keep(logger) }
    return checked
  }

  private func check(_ recheck: Recheck) async {
    let requestID = "recheck-\(recheck.key.originalTransactionID.rawValue)-\(recheck.attempts)"
    var logger = logger
    logger[metadataKey: "request_id"] = "\(requestID)"
    let submission = ReceiptSubmission(
      user: recheck.owner, proof: .kept(recheck.key, recheck.receipt), requestID: requestID)
    do throws(ValidationError) {
      _ = try await validator.validate(
        submission, .recheck(admits: brake.admission(of: validator.examiner.rules)), logger: logger)
    } catch {
      switch error {
      case .heldBack: await brake.announce(logger)
      case .appStoreUnavailable, .overloaded, .cancelled: break
      case .ledgerUnavailable(let cause):
        logger.warning("a verdict could not be recorded", metadata: ["error": "\(cause)"])
      case .sandboxRefused: await judgeAnew(recheck, requestID: requestID, logger: logger)
      case .undecodableReceipt, .unsupportedReceipt, .notAuthentic, .wrongApp, .ownedByAnotherUser, .unknownTransaction:
        // Of a receipt that counted before. The state that was proven stands.
        logger.warning(
          "a kept receipt was refused", metadata: ["problem": "\(Problem(error).code.rawValue)"])
      }
    }
  }

  /// The operator decided, after the purchase counted, that this user's sandbox purchases do not. Reads say so at once; the
  /// app's own row has to be told.
  private func judgeAnew(_ recheck: Recheck, requestID: String, logger: Logger) async {
    do throws(LedgerError) {
      let isAdmitted = try await ledger.judgeAnew(
        recheck.owner, receipt: recheck.receipt.base64, requestID: requestID, validator.rejudgement,
        admits: brake.admission(of: validator.examiner.rules))
      if !isAdmitted { await brake.announce(logger) }
    } catch {
      logger.warning("a verdict could not be recorded", metadata: ["error": "\(error)"])
    }
  }
}
