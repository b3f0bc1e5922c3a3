import AppStore
package import Entitlements
package import Ledger
package import Logging
import Resilience

/// The re-validation of everything that a user owns, on request.
package struct UserRevalidation: Sendable {
  var validator: ReceiptValidator
  var ledger: Ledger

  /// The most receipts in one request, those with the newest evidence first. A customer of many years has a handful, a
  /// sandbox tester may have more.
  static let limit = 50
  /// Receipts asked about at the same time.
  static let width = 4

  /// Asks Apple about all of a user's receipts, once the note is durable.
  ///
  /// All receipts together have the time of one validation. A receipt that could not be asked about keeps its proven
  /// state, and the answer is `stale`. So does a kept receipt that is refused now.
  package func revalidate(
    _ user: UserID, note: Note?, requestID: String, logger: Logger
  ) async throws(ValidationError) -> ValidatedEntitlement {
    let name: NoteID? =
      if let note { try await consult(await ledger.keepNote(note, about: user)) } else { nil }
    return try await revalidate(user, noted: name, requestID: requestID, logger: logger)
  }

  /// - Parameter note: of the verdicts that it brings.
  func revalidate(
    _ user: UserID, noted note: NoteID?, requestID: String, logger: Logger
  ) async throws(ValidationError) -> ValidatedEntitlement {
    let receipts = try await consult(await ledger.receipts(of: user, limit: Self.limit + 1))
    let end = ContinuousClock.now.advanced(by: validator.gateway.deadline)
    let answers = try await ask(
      about: receipts.prefix(Self.limit), of: user, note, until: end, requestID: requestID, logger)
    // A person looks at what was paid; a server that asks about many users does not.
    if note != nil { await completePayments(of: receipts.map(\.key), until: end, logger) }
    let isComplete = receipts.count <= Self.limit && answers == receipts.count
    return try await validator.standing(
      of: user, isFresh: isComplete && !receipts.isEmpty, isWanting: !isComplete, logger: logger)
  }

  /// - Returns: the number of receipts with an answer.
  private func ask(
    about receipts: some Collection<OwnedReceipt>, of user: UserID, _ note: NoteID?, until end: ContinuousClock.Instant,
    requestID: String, _ logger: Logger
  ) async throws(ValidationError) -> Int {
    let answers = await mapConcurrently(receipts, width: Self.width) { owned -> Result<Bool, ValidationError> in
      var submission = ReceiptSubmission(user: user, proof: .kept(owned.key, owned.receipt), requestID: requestID)
      submission.note = note
      do throws(ValidationError) {
        return .success(try await isAnswered(submission, until: end, logger: logger))
      } catch { return .failure(error) }
    }
    var count = 0
    for answer in answers where try answer.get() { count += 1 }
    // The caller is gone, and Apple was not asked about the rest.
    guard answers.count == receipts.count else { throw .cancelled }
    return count
  }

  /// Keeps the payments that Apple's answers leave out, as far as they are told in time: for the timeline, and for figures.
  private func completePayments(
    of keys: [SubscriptionKey], until end: ContinuousClock.Instant, _ logger: Logger
  ) async {
    guard let serverAPI = validator.gateway.serverAPI else { return }
    // One answer is about all subscriptions of an Apple Account.
    var told: Set<SubscriptionKey> = []
    for key in keys where key.environment == .production && !key.isOfApp && !told.contains(key) {
      guard !key.originalTransactionID.isOfAnotherStore, ContinuousClock.now < end else { continue }
      do {
        let payments = try await serverAPI.payments(
          of: key.originalTransactionID, bundleIDs: validator.gateway.apps.bundleIDs, in: key.environment, deadline: end
        ).evidence()
        told.formUnion(payments.map(\.key))
        try await ledger.keepPast(payments)
      } catch {
        logger.debug("Apple does not tell all payments of a user", metadata: ["cause": "\(error)"])
      }
    }
  }

  private func isAnswered(
    _ submission: ReceiptSubmission, until end: ContinuousClock.Instant, logger: Logger
  ) async throws(ValidationError) -> Bool {
    guard ContinuousClock.now < end else { return false }
    do throws(ValidationError) {
      let answer = try await validator.validate(submission, .inquiry, until: end, logger: logger)
      return !answer.isFromLedger
    } catch {
      switch error {
      case .ledgerUnavailable, .cancelled: throw error
      // No error of the request: other receipts of the user may count.
      case .sandboxRefused:
        try await validator.reevaluate(submission)
        return true
      case .appStoreUnavailable, .overloaded, .heldBack, .clockBehind, .keyOfAnotherApp: return false
      case .undecodableReceipt, .unreadableSignedData, .unsupportedReceipt, .notAuthentic, .wrongApp,
        .ownedByAnotherUser, .ofUnknownOwnership, .unknownTransaction, .notAskable:
        logger.warning("a kept receipt was refused", metadata: ["cause": "\(error)"])
        return false
      }
    }
  }
}
