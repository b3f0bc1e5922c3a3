import AppStore
package import Entitlements
package import Ledger
package import Logging
import Resilience
import Synchronization

package import struct FoundationEssentials.Date

/// The refunds of customers by Apple's own list. A refund that is new here is recorded as the signed fact that it is.
///
///     a purchase ─► all refunds of its customer ─► known already? ─► evidence of the owner's purchase ─► verdict
///
/// https://developer.apple.com/documentation/appstoreserverapi/get-refund-history
package final class RefundHistory: Sendable {
  /// The origin of a question to Apple. The raw values are a metric's.
  package enum Finder: String, Sendable, CaseIterable {
    case sweep, support
  }

  package struct Refund: Sendable {
    package var environment: StoreEnvironment
    package var transaction: Purchase
    /// `REFUND_FULL`, `REFUND_PRORATED`, …, where Apple says so.
    package var type: String?
    /// The user who has the purchase; `nil`: nobody has.
    package var owner: UserID?
    package var isNew: Bool
  }

  package struct Answer: Sendable {
    /// The newest first.
    package var refunds: [Refund] = []
    /// Purchases that Apple was asked about, and those without an answer.
    package var asked = 0
    package var unanswered = 0
  }

  let validator: ReceiptValidator
  let ledger: Ledger
  let onFound: @Sendable (Finder) -> Void
  private let sweep = Mutex<Date?>(nil)

  /// The most purchases of one user that Apple is asked about, those with the newest evidence. Most users have one customer's,
  /// and any of them leads to all of the customer's refunds.
  static let limit = 20
  /// Purchases asked about at the same time.
  static let width = 4

  /// - Parameter onFound: called with each refund that is recorded.
  package init(
    validator: ReceiptValidator, ledger: Ledger, onFound: @escaping @Sendable (Finder) -> Void
  ) {
    self.validator = validator
    self.ledger = ledger
    self.onFound = onFound
  }

  /// When the last sweep ended; `nil` before.
  package var sweptAt: Date? { sweep.withLock { $0 } }
  func noteSweep(endedAt: Date?) { sweep.withLock { $0 = endedAt } }

  // MARK: One user

  /// Asks Apple about a user's purchases, and takes what is new. No brake holds it: a person looks at one user.
  ///
  /// - Throws: `notAskable` without a key; the reason, where Apple answers about no purchase.
  package func refunds(
    of user: UserID, requestID: String, logger: Logger
  ) async throws(ValidationError) -> Answer {
    guard validator.gateway.serverAPI != nil else { throw .notAskable }
    let questions = try await consult(await ledger.refundQuestions(of: user)).filter { !$0.key.isOfApp }
      .prefix(Self.limit)
    let end = ContinuousClock.now.advanced(by: validator.gateway.deadline)
    let answers = await mapConcurrently(questions, width: Self.width) {
      [self] one -> (StoreEnvironment, Result<[SignedRefund], AppStoreError>) in
      do throws(AppStoreError) {
        return (one.key.environment, .success(try await ask(about: one, until: end)))
      } catch { return (one.key.environment, .failure(error)) }
    }
    guard answers.count == questions.count else { throw .cancelled }
    var answer = Answer(asked: questions.count)
    var failure: AppStoreError?
    var found: [StoreEnvironment: [SignedRefund]] = [:]
    for (environment, outcome) in answers {
      switch outcome {
      case .success(let refunds): found[environment, default: []] += refunds
      case .failure(let error):
        answer.unanswered += 1
        failure = error
      }
    }
    if let failure {
      validator.gateway.appStoreHealth.failed(failure)
      failure.log(logger)
      if answer.unanswered == answer.asked {
        throw failure == .cancelled || failure == .overloaded ? ValidationError(failure) : .appStoreUnavailable(failure)
      }
    } else if answer.asked > 0 {
      validator.gateway.appStoreHealth.answered()
    }
    for (environment, refunds) in found {
      let taken = try await consult(
        await take(refunds, in: environment, by: .support, requestID: requestID, logger: logger) { _, _ in true })
      answer.refunds += taken.refunds
    }
    answer.refunds.sort { ($0.refundedAt, $0.id) > ($1.refundedAt, $1.id) }
    return answer
  }

  // MARK: Asking and taking

  /// - Parameter retriesTrouble: see `ServerAPIClient.history`.
  func ask(
    about question: RefundQuestion, retriesTrouble: Bool = true, until end: ContinuousClock.Instant
  ) async throws(AppStoreError) -> [SignedRefund] {
    guard let serverAPI = validator.gateway.serverAPI, validator.gateway.apps.contains(question.bundleID) else {
      return []
    }
    do throws(AppStoreError) {
      return try await serverAPI.refunds(
        of: question.key.originalTransactionID, bundleIDs: [question.bundleID], in: question.key.environment,
        retriesTrouble: retriesTrouble, deadline: end)
    } catch {
      // It has no customer any more.
      guard error == .notFound else { throw error }
      return []
    }
  }

  /// Records the refunds that are new, for each user in one transaction.
  ///
  /// - Returns: all of them, each once, and whether a verdict was not approved.
  func take(
    _ signed: [SignedRefund], in environment: StoreEnvironment, by finder: Finder, requestID: String, logger: Logger,
    approves: @escaping Approval
  ) async throws(LedgerError) -> (refunds: [Refund], isHeldBack: Bool) {
    var seen: Set<TransactionID> = []
    let signed = signed.filter { one in
      one.transaction.purchase.cancellationDate != nil && seen.insert(one.transaction.purchase.transactionID).inserted
    }
    let knowledge = try await ledger.knowledge(
      ofRefunds: signed.map { one in
        let purchase = one.transaction.purchase
        return (
          SubscriptionKey(environment: environment, originalTransactionID: purchase.originalTransactionID),
          purchase.transactionID
        )
      })
    var (refunds, news): ([Refund], [UserID: [SignedRefund]]) = ([], [:])
    for (one, known) in zip(signed, knowledge) {
      var isNew = false
      if case .new(let owner) = known {
        news[owner, default: []].append(one)
        isNew = true
      }
      refunds.append(
        Refund(
          environment: environment, transaction: one.transaction.purchase, type: one.transaction.revocationType,
          owner: known.owner, isNew: isNew))
    }
    var isHeldBack = false
    for (owner, news) in news.sorted(by: { $0.key.rawValue < $1.key.rawValue }) {
      let isRecorded = try await record(
        news, of: owner, in: environment, requestID: requestID, logger: logger, approves: approves)
      guard isRecorded else {
        isHeldBack = true
        continue
      }
      for one in news {
        onFound(finder)
        logger.notice(
          "a refund was found that no notification had told",
          metadata: [
            "user_id": "\(owner.shown)", "environment": "\(environment.rawValue)",
            "transaction_id": "\(one.transaction.purchase.transactionID)", "by": "\(finder.rawValue)",
          ])
      }
    }
    return (refunds, isHeldBack)
  }

  /// - Returns: `false` if the verdict was not approved.
  private func record(
    _ refunds: [SignedRefund], of owner: UserID, in environment: StoreEnvironment, requestID: String, logger: Logger,
    approves: @escaping Approval
  ) async throws(LedgerError) -> Bool {
    let verdicts = validator.verdicts
    let now = verdicts.now()
    guard let newest = refunds.max(by: { $0.transaction.signedDate < $1.transaction.signedDate }) else { return true }
    let history = PurchaseHistory(
      environment: environment, source: .serverAPI, evidenceTime: newest.transaction.signedDate,
      evaluatedAt: newest.transaction.signedDate, purchases: refunds.map(\.transaction.purchase),
      coverage: .partial(since: nil))
    var entry = LedgerEntry(
      user: owner, evidence: history.evidence(), contestedKeys: [],
      receipt: KeptReceipt(base64: newest.text, environment: environment, bundleID: newest.transaction.bundleID),
      origin: .recheck(nil), evaluatedAt: max(history.evaluatedAt, now), recordedAt: now, requestID: requestID,
      rules: verdicts.rules, approves: approves)
    entry.keepsReceipts = true
    entry.tokensAreUserIDs = verdicts.accountTokenIsUserID
    entry.rowsClaimedUntil = verdicts.rowsClaim
    switch try await ledger.record(entry) {
    case .recorded(let recorded):
      validator.onVerdict(recorded.entitlement)
      _ = await verdicts.write(owner, recorded.write, recorded.update, after: recorded.losers, logger: logger)
      return true
    // It has become another user's since it was looked up, or nobody's.
    case .ownedByAnotherUser, .ofUnknownOwnership: return true
    case .heldBack: return false
    }
  }
}

extension RefundHistory.Refund {
  fileprivate var refundedAt: Date { transaction.cancellationDate ?? .distantPast }
  fileprivate var id: String { transaction.transactionID.rawValue }
}
