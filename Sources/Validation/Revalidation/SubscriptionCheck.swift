import AppStore
import Entitlements
import Ledger
import Logging

/// The check of a subscription for scheduler and runs, where no caller waits for the answer.
struct SubscriptionCheck: Sendable {
  var validator: ReceiptValidator
  var ledger: Ledger
  var brake: DowngradeBrakeService

  private var verdicts: VerdictContext { validator.verdicts }

  enum Outcome: Hashable, Sendable {
    /// Apple's answer is recorded and settles the item of a run.
    case recorded
    /// The policy excluded the purchase, and the user was evaluated without it.
    case judgedAnew(changed: Bool)
    /// The verdict would have lowered a tier, and the brake held it back.
    case heldBack
    /// Apple or our own rules refuse the receipt. The proven state stands.
    case refused
    /// Apple has trouble, possibly with this subscription only.
    case troubled
    /// Apple or the ledger is unavailable.
    case away
    case cancelled
  }

  /// - Parameter item: the item of a run that an answer settles.
  func ask(
    about key: SubscriptionKey, of owner: UserID, _ receipt: KeptReceipt, requestID: String,
    settling item: RunItem? = nil,
    logger: Logger
  ) async -> Outcome {
    let submission = ReceiptSubmission(user: owner, proof: .kept(key, receipt), requestID: requestID)
    do throws(ValidationError) {
      _ = try await validator.validate(
        submission, .recheck(approves: brake.approval(of: verdicts.rules), settling: item), logger: logger)
      return .recorded
    } catch {
      switch error {
      case .heldBack:
        await brake.announce(logger)
        return .heldBack
      case .appStoreUnavailable(let cause):
        _ = await followTime(of: owner, requestID: requestID, logger: logger)
        return cause.mayConcernThisReceiptOnly || cause.mayBeProvoked ? .troubled : .away
      case .overloaded: return .away
      case .cancelled: return .cancelled
      case .ledgerUnavailable(let cause): return outcome(of: cause, logger)
      case .sandboxRefused: return await reevaluate(owner, receipt, requestID: requestID, logger: logger)
      case .notAskable: return await followTime(of: owner, requestID: requestID, logger: logger)
      case .clockBehind, .keyOfAnotherApp: return .troubled
      case .undecodableReceipt, .unreadableSignedData, .unsupportedReceipt, .notAuthentic, .wrongApp,
        .ownedByAnotherUser, .ofUnknownOwnership, .unknownTransaction:
        // The receipt counted before, and the proven state stands, as far as a read lets it stand.
        logger.warning(
          "a kept receipt was refused", metadata: ["problem": "\(error.code)"])
        _ = await followTime(of: owner, requestID: requestID, logger: logger)
        return .refused
      }
    }
  }

  /// Brings the app's own row to what a read says by time alone, while Apple cannot be asked, knows the purchase no more,
  /// or no source can answer: an ended state is held for a while (`policy.outage_hold`), and is unproven then.
  func followTime(of user: UserID, requestID: String, logger: Logger) async -> Outcome {
    let rules = verdicts.rules
    let evaluationContext = verdicts.evaluationContext
    let now = evaluationContext.evaluatedAt
    let brakeAdmits = brake.approval(of: rules)
    let approves: Approval = { before, after in
      // The previous verdict no longer counts for any reader.
      if let end = before?.accessUntil, end.advanced(by: rules.policy.outageHold) <= now { return true }
      return brakeAdmits(before, after)
    }
    do throws(LedgerError) {
      guard let profile = try await ledger.profile(of: user),
        rules.standing(of: user, profile, at: now).profileRow != profile.entitlement.profileRow
      else { return .judgedAnew(changed: false) }
      return try await reevaluate(
        Reevaluate(
          user, requestID: requestID, evaluationContext,
          withholds: { verdict, evidence, given, recorded, now in
            rules.withholds(verdict, from: user, evidence, given: given, recorded: recorded, at: now)
          }, approves: approves), logger)
    } catch {
      return outcome(of: error, logger)
    }
  }

  private func outcome(of error: LedgerError, _ logger: Logger) -> Outcome {
    // A user who cannot be read holds up no other.
    if case .unusable = error {
      logger.error("a verdict cannot be recorded", metadata: ["error": "\(error)"])
      return .refused
    }
    logger.warning("a verdict cannot be recorded", metadata: ["error": "\(error)"])
    return .away
  }

  /// Re-evaluates the user without sandbox purchases, which the operator has excluded since they counted.
  private func reevaluate(
    _ owner: UserID, _ receipt: KeptReceipt, requestID: String, logger: Logger
  ) async -> Outcome {
    do throws(LedgerError) {
      return try await reevaluate(
        Reevaluate(
          owner, receipt: receipt.base64, requestID: requestID, verdicts.evaluationContext,
          approves: brake.approval(of: verdicts.rules)), logger)
    } catch {
      return outcome(of: error, logger)
    }
  }

  private func reevaluate(_ reevaluation: Reevaluate, _ logger: Logger) async throws(LedgerError) -> Outcome {
    let outcome = try await ledger.run(reevaluation)
    guard outcome != .heldBack else {
      await brake.announce(logger)
      return .heldBack
    }
    return .judgedAnew(changed: outcome == .recorded)
  }
}
