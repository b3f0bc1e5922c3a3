import Entitlements
import Ledger
import Logging

/// Asks Apple about a subscription with nobody waiting for the answer: scheduler and runs.
struct SubscriptionCheck: Sendable {
  var validator: ReceiptValidator
  var ledger: any Ledger
  var brake: Brake

  enum Outcome: Hashable, Sendable {
    /// Apple's word is recorded; a run's subscription is settled with it.
    case recorded
    /// The policy took the purchase out of count, and the user was judged anew without it.
    case judgedAnew(changed: Bool)
    /// The verdict would have lowered a tier, and the brake holds.
    case heldBack
    /// Apple, or our own rules, refuse the receipt. The proven state stands.
    case refused
    /// Apple has trouble, maybe with this one only.
    case troubled
    /// Nothing can be asked or recorded just now.
    case away
    case cancelled
  }

  /// - Parameter item: the subscription of a run that an answer settles.
  func ask(
    about key: SubscriptionKey, of owner: UserID, _ receipt: KeptReceipt, requestID: String,
    settling item: RunItem? = nil,
    logger: Logger
  ) async -> Outcome {
    let submission = ReceiptSubmission(user: owner, proof: .kept(key, receipt), requestID: requestID)
    do throws(ValidationError) {
      _ = try await validator.validate(
        submission, .recheck(admits: brake.admission(of: validator.examiner.rules), settling: item), logger: logger)
      return .recorded
    } catch {
      switch error {
      case .heldBack:
        await brake.announce(logger)
        return .heldBack
      case .appStoreUnavailable(let appleStatus):
        return appleStatus.map(PendingSettler.mayBeTheReceipt) == true ? .troubled : .away
      case .overloaded: return .away
      case .cancelled: return .cancelled
      case .ledgerUnavailable(let cause):
        logger.warning("a verdict could not be recorded", metadata: ["error": "\(cause)"])
        return .away
      case .sandboxRefused: return await judgeAnew(owner, receipt, requestID: requestID, logger: logger)
      case .notAskable: return await endHold(of: owner, receipt, requestID: requestID, logger: logger)
      case .clockBehind: return .troubled
      case .undecodableReceipt, .unsupportedReceipt, .notAuthentic, .wrongApp, .ownedByAnotherUser, .unknownTransaction:
        // Of a receipt that counted before. The state that was proven stands.
        logger.warning(
          "a kept receipt was refused", metadata: ["problem": "\(Problem(error).code.rawValue)"])
        return .refused
      }
    }
  }

  /// Of a purchase that is known by signatures alone nobody can be asked. After its end it is held for a while
  /// (`policy.outage_hold`), and then it is unproven: reads say so by themselves, the app's own row has to be told.
  private func endHold(
    of owner: UserID, _ receipt: KeptReceipt, requestID: String, logger: Logger
  ) async -> Outcome {
    let rejudgement = validator.rejudgement
    do throws(LedgerError) {
      guard let profile = try await ledger.profile(of: owner) else { return .judgedAnew(changed: false) }
      let verdict = rejudgement.judge(owner, profile.evidence, rejudgement.judgedAt)
      guard verdict.reason == .unproven, profile.entitlement.reason != .unproven else {
        return .judgedAnew(changed: false)
      }
    } catch {
      logger.warning("a verdict could not be recorded", metadata: ["error": "\(error)"])
      return .away
    }
    return await judgeAnew(owner, receipt, requestID: requestID, logger: logger)
  }

  /// The operator decided, after the purchase counted, that this user's sandbox purchases do not. Reads say so at once; the
  /// app's own row has to be told.
  private func judgeAnew(
    _ owner: UserID, _ receipt: KeptReceipt, requestID: String, logger: Logger
  ) async -> Outcome {
    do throws(LedgerError) {
      let before = try await ledger.profile(of: owner)?.version
      let isAdmitted = try await ledger.judgeAnew(
        owner, receipt: receipt.base64, requestID: requestID, validator.rejudgement,
        admits: brake.admission(of: validator.examiner.rules))
      guard isAdmitted else {
        await brake.announce(logger)
        return .heldBack
      }
      return .judgedAnew(changed: try await ledger.profile(of: owner)?.version != before)
    } catch {
      logger.warning("a verdict could not be recorded", metadata: ["error": "\(error)"])
      return .away
    }
  }
}
