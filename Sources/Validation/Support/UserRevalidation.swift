package import Entitlements
package import Ledger
package import Logging
import Resilience

/// Asks Apple anew about everything a user owns, on somebody's word.
package struct UserRevalidation: Sendable {
  package var validator: ReceiptValidator
  package var ledger: any SupportLedger

  package init(validator: ReceiptValidator, ledger: any SupportLedger) {
    self.validator = validator
    self.ledger = ledger
  }

  /// The most receipts asked about in one request; the ones with the newest evidence come first. A customer of many years
  /// has a handful, a tester of the sandbox may have more.
  package static let limit = 50
  /// Receipts asked about at the same time.
  package static let width = 4

  /// The note is durable before Apple is asked, and stays when Apple cannot be.
  ///
  /// All receipts together have the time of one validation. What could not be asked about keeps its proven state, and the
  /// answer is `stale` then. So it is where a kept receipt is refused: it counted before, and what was proven stands.
  package func revalidate(
    _ user: UserID, note: Note?, requestID: String, logger: Logger
  ) async throws(ValidationError) -> ValidatedEntitlement {
    let name: NoteID?
    let receipts: [OwnedReceipt]
    do throws(LedgerError) {
      name = if let note { try await ledger.keepNote(note, about: user) } else { nil }
      receipts = try await ledger.receipts(of: user, limit: Self.limit + 1)
    } catch { throw .ledgerUnavailable(error) }
    let answers = try await ask(about: receipts.prefix(Self.limit), of: user, name, requestID: requestID, logger)
    let isComplete = receipts.count <= Self.limit && answers == receipts.count
    return try await validator.standing(
      of: user, isFresh: isComplete && !receipts.isEmpty, isWanting: !isComplete, logger: logger)
  }

  /// - Returns: how many receipts there is an answer about.
  private func ask(
    about receipts: some Collection<OwnedReceipt>, of user: UserID, _ note: NoteID?, requestID: String, _ logger: Logger
  ) async throws(ValidationError) -> Int {
    let end = ContinuousClock.now.advanced(by: validator.gateway.deadline)
    let answers = await mapConcurrently(receipts, width: Self.width) { owned -> Result<Bool, ValidationError> in
      var submission = ReceiptSubmission(user: user, proof: .kept(owned.key, owned.receipt), requestID: requestID)
      submission.note = note
      do throws(ValidationError) {
        return .success(try await isAnswered(submission, until: end, logger: logger))
      } catch { return .failure(error) }
    }
    var count = 0
    for answer in answers where try answer.get() { count += 1 }
    // The caller has gone, and Apple was not asked about the rest.
    guard answers.count == receipts.count else { throw .cancelled }
    return count
  }

  private func isAnswered(
    _ submission: ReceiptSubmission, until end: ContinuousClock.Instant, logger: Logger
  ) async throws(ValidationError) -> Bool {
    var validator = validator
    validator.gateway.deadline = ContinuousClock.now.duration(to: end)
    guard validator.gateway.deadline > .zero else { return false }
    do throws(ValidationError) {
      let answer = try await validator.validate(submission, .inquiry, logger: logger)
      return !answer.isFromLedger
    } catch {
      switch error {
      case .ledgerUnavailable, .cancelled: throw error
      // Others of the user's may count, so this is no problem of the request's: their state has to be told.
      case .sandboxRefused:
        try await validator.reevaluate(submission)
        return true
      case .appStoreUnavailable, .overloaded, .heldBack, .clockBehind: return false
      case .undecodableReceipt, .unsupportedReceipt, .notAuthentic, .wrongApp, .ownedByAnotherUser,
        .unknownTransaction, .notAskable:
        logger.warning("a kept receipt was refused", metadata: ["cause": "\(error)"])
        return false
      }
    }
  }
}
