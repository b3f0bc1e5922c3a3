import Entitlements
package import Ledger
import Logging

/// Asks Apple about a subscription with nobody waiting for the answer: scheduler and runs.
package struct SubscriptionCheck: Sendable {
  package var validator: ReceiptValidator
  package var ledger: any Ledger
  package var brake: DowngradeBrakeService

  package init(validator: ReceiptValidator, ledger: any Ledger, brake: DowngradeBrakeService) {
    self.validator = validator
    self.ledger = ledger
    self.brake = brake
  }

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
    /// Apple or the ledger is unavailable.
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
        submission, .recheck(approves: brake.approval(of: validator.gateway.rules), settling: item), logger: logger)
      return .recorded
    } catch {
      switch error {
      case .heldBack:
        await brake.announce(logger)
        return .heldBack
      case .appStoreUnavailable(let appleStatus):
        _ = await followTime(of: owner, requestID: requestID, logger: logger)
        return appleStatus.map(PendingSettler.mayBeTheReceipt) == true ? .troubled : .away
      case .overloaded: return .away
      case .cancelled: return .cancelled
      case .ledgerUnavailable(let cause):
        logger.warning("a verdict could not be recorded", metadata: ["error": "\(cause)"])
        return .away
      case .sandboxRefused: return await reevaluate(owner, receipt, requestID: requestID, logger: logger)
      case .notAskable: return await followTime(of: owner, requestID: requestID, logger: logger)
      case .clockBehind: return .troubled
      case .undecodableReceipt, .unsupportedReceipt, .notAuthentic, .wrongApp, .ownedByAnotherUser, .unknownTransaction:
        // The receipt counted before, so the proven state stands.
        logger.warning(
          "a kept receipt was refused", metadata: ["problem": "\(error.code)"])
        return .refused
      }
    }
  }

  /// Brings the app's own row to what a read says by time alone, where Apple cannot be asked or nobody can: what has ended is
  /// held for a while (`policy.outage_hold`), and then it is unproven.
  func followTime(of user: UserID, requestID: String, logger: Logger) async -> Outcome {
    let rules = validator.gateway.rules
    let evaluationContext = validator.evaluationContext
    let now = evaluationContext.evaluatedAt
    let successor: Reevaluation.Successor = { evidence, recorded, now in
      let verdict = rules.evaluate(user, evidence, at: now)
      return rules.withholds(verdict, from: user, evidence, recorded: recorded, at: now) ? nil : verdict
    }
    let brakeAdmits = brake.approval(of: rules)
    let approves: Approval = { before, after in
      // The previous verdict no longer counts for any reader.
      if let end = before?.accessUntil, end.advanced(by: rules.policy.outageHold) <= now { return true }
      return brakeAdmits(before, after)
    }
    let reevaluation = Reevaluation(
      evaluatedAt: now, recordedAt: evaluationContext.recordedAt, successor: successor, approves: approves)
    do throws(LedgerError) {
      guard let profile = try await ledger.profile(of: user),
        rules.standing(of: user, profile, at: now).profileRow != profile.entitlement.profileRow
      else { return .judgedAnew(changed: false) }
      let outcome = try await ledger.reevaluate(user, requestID: requestID, reevaluation)
      guard outcome != .heldBack else {
        await brake.announce(logger)
        return .heldBack
      }
      return .judgedAnew(changed: outcome == .recorded)
    } catch {
      logger.warning("a verdict could not be recorded", metadata: ["error": "\(error)"])
      return .away
    }
  }

  /// The operator decided, after the purchase counted, that this user's sandbox purchases do not. Until now it was withheld.
  private func reevaluate(
    _ owner: UserID, _ receipt: KeptReceipt, requestID: String, logger: Logger
  ) async -> Outcome {
    do throws(LedgerError) {
      let before = try await ledger.profile(of: owner)?.version
      let isAdmitted = try await ledger.reevaluate(
        owner, receipt: receipt.base64, requestID: requestID, validator.evaluationContext,
        approves: brake.approval(of: validator.gateway.rules))
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
