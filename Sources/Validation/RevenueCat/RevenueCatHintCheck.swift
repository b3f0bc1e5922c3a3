import AppStore
import Entitlements
import Ledger
import Logging
import Resilience

import struct FoundationEssentials.Date

/// The question to Apple about a purchase that RevenueCat named.
struct RevenueCatHintCheck: Sendable {
  var validator: ReceiptValidator
  var ledger: Ledger

  private var verdicts: VerdictContext { validator.verdicts }

  /// The time for which Apple is asked again.
  static let patience: Duration = .seconds(30 * 86_400)
  /// The time after a report in which Apple may not know its purchase yet.
  private static let delay: Duration = .seconds(86_400)
  private static let retry = Backoff(base: .seconds(60), cap: .seconds(3_600))

  /// Asks Apple. Its answer is recorded for the owner of the purchase, or for the user whom RevenueCat names. Until there
  /// is one, the hint stays, and may raise that user's tier for a while.
  func ask(about hint: RevenueCatHint, logger: Logger) async {
    let now = verdicts.now().inWholeMilliseconds
    let again = now.advanced(by: Self.retry.ceiling(after: hint.attempts))
    let mayBeLate =
      validator.gateway.serverAPI != nil && !hint.isTemporary && now < hint.reportedAt.advanced(by: Self.delay)
    do throws(LedgerError) {
      guard verdicts.rules.accepts(hint.key.environment, for: hint.user),
        now < hint.reportedAt.advanced(by: Self.patience)
      else { return try await settle(hint) }
      do throws(ValidationError) {
        let submission = try await submission(of: hint)
        _ = try await validator.validate(submission, .recheck(approves: { _, _ in true }), logger: logger)
        try await consult(await settle(hint))
      } catch {
        switch error {
        case .ledgerUnavailable(let cause): throw cause
        case .appStoreUnavailable, .overloaded, .cancelled, .heldBack, .clockBehind, .unreadableSignedData:
          try await postpone(hint, until: again, logger)
        // A newer version may know the ownership, and Apple may find a purchase later. It raises nobody anew meanwhile.
        case .ofUnknownOwnership:
          try await postpone(hint, for: .zero, until: again, logger)
        case .unknownTransaction where mayBeLate:
          try await postpone(hint, for: .zero, until: again, logger)
        case .unknownTransaction where validator.gateway.serverAPI == nil || hint.isTemporary, .notAskable,
          .unsupportedReceipt:
          // No source can confirm the hint: it expires with what it granted.
          let end = hint.reportedAt.advanced(by: validator.provisional)
          guard now < end else { return try await settle(hint) }
          try await postpone(hint, until: end, logger)
        case .undecodableReceipt, .notAuthentic, .wrongApp, .keyOfAnotherApp, .sandboxRefused, .ownedByAnotherUser,
          .unknownTransaction:
          logger.notice(
            "Apple does not confirm a purchase that RevenueCat reported", metadata: ["problem": "\(error.code)"])
          try await settle(hint)
        }
      }
    } catch {
      // The hint is durable, and comes due again.
      logger.warning("a hint from RevenueCat cannot be settled", metadata: ["error": "\(error)"])
      if case .unusable = error { try? await ledger.putOffReport(hint.key, at: now) }
    }
  }

  private func submission(of hint: RevenueCatHint) async throws(ValidationError) -> ReceiptSubmission {
    let id = hint.key.originalTransactionID
    let requestID = "revenuecat-\(id)"
    let kept = try await consult(await ledger.receipts(mentioning: id))
    if let receipt = kept.first(where: { $0.environment == hint.key.environment }), let owner = receipt.owner {
      return ReceiptSubmission(user: owner, proof: .kept(hint.key, receipt), requestID: requestID)
    }
    return ReceiptSubmission(
      user: hint.user, proof: .originalTransactionID(id), requestID: requestID, isVouchedFor: true)
  }

  private func settle(_ hint: RevenueCatHint) async throws(LedgerError) {
    try await ledger.run(SettleReport(hint.key, upTo: hint.at, verdicts.evaluationContext))
  }

  /// - Parameter provisional: how long it may raise the user's tier; `nil`: for the policy's time.
  private func postpone(
    _ hint: RevenueCatHint, for provisional: Duration? = nil, until due: Date, _ logger: Logger
  ) async throws(LedgerError) {
    let provisional = provisional ?? validator.provisional
    try await ledger.run(PostponeReport(hint.key, for: provisional, until: due, verdicts.evaluationContext))
    _ = await verdicts.write(hint.user, .waiting, logger: logger)
  }
}
