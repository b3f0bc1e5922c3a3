package import Entitlements
package import struct FoundationEssentials.Date

/// Evaluates a user over all evidence at a moment. Pure; it runs inside the ledger's transaction.
package typealias Evaluator =
  @Sendable (
    _ user: UserID, _ evidence: [SubscriptionEvidence], _ given: [GivenPeriod], _ now: Date
  ) -> Entitlement

/// The time of a subscription's next check, as known at a moment; `nil` for never. Pure.
package typealias NextCheck = @Sendable (_ evidence: SubscriptionEvidence, _ now: Date) -> Date?

/// The rule for the next checks of a user's purchases, from all evidence on the user. Pure.
package typealias NextChecks = @Sendable (_ all: [SubscriptionEvidence]) -> NextCheck

/// Evaluates a purchase of a user by itself, as it is among all evidence on the user. Pure.
package typealias PartEvaluator =
  @Sendable (_ all: [SubscriptionEvidence]) -> (
    _ user: UserID, _ evidence: SubscriptionEvidence, _ now: Date
  ) -> Entitlement

/// Whether a verdict may replace the previous one, `nil` for an unknown user.
///
/// The closure may count its calls: it is called once per change, even if the transaction is repeated.
package typealias Approval = @Sendable (_ before: Entitlement?, _ after: Entitlement) -> Bool

/// How users are evaluated and recorded without an answer from Apple.
package struct EvaluationContext: Sendable {
  /// The evaluation time, in whole milliseconds as the ledger stores it: a period that begins then has begun.
  package let evaluatedAt: Date
  /// Our own clock, for the record, in whole milliseconds too.
  package let recordedAt: Date
  package var evaluate: Evaluator
  package var evaluatePart: PartEvaluator
  /// Every account token is the ID of a user (`policy.app_account_token`).
  package var tokensAreUserIDs: Bool
  /// Apple is told the users of purchases that do not name them.
  package var tellsAccountTokens: Bool

  package init(
    evaluatedAt: Date, recordedAt: Date, tokensAreUserIDs: Bool = false, tellsAccountTokens: Bool = false,
    evaluate: @escaping Evaluator, evaluatePart: PartEvaluator? = nil
  ) {
    self.evaluatedAt = evaluatedAt.inWholeMilliseconds
    self.recordedAt = recordedAt.inWholeMilliseconds
    self.tokensAreUserIDs = tokensAreUserIDs
    self.tellsAccountTokens = tellsAccountTokens
    self.evaluate = evaluate
    self.evaluatePart = evaluatePart ?? Self.alone(evaluate)
  }

  /// Whether a user has bought access since a moment, running or not: a consumable, a product that the catalog lacks, a
  /// family member's purchase and one of a store environment that the user may not use give none.
  ///
  /// - Parameter evidence: with the earlier transactions, which tell a renewal from a purchase.
  package func hasBought(_ user: UserID, _ evidence: [SubscriptionEvidence], since start: Date) -> Bool {
    let bought = evidence.map { evidence in
      var evidence = evidence
      evidence.purchases = evidence.purchases.bought(since: start).filter { $0.ownership != .familyShared }
      return evidence
    }
    return evaluate(user, bought.filter { !$0.purchases.isEmpty }, [], evaluatedAt).productID != nil
  }

  /// Whether a user's purchases give as much by now as a trial would that went on.
  func covers(_ trial: GivenPeriod, of user: UserID, _ evidence: [SubscriptionEvidence]) -> Bool {
    var trial = trial
    trial.endsAt = .distantFuture
    return evaluate(user, evidence, [trial], evaluatedAt).source != trial.source
  }

  /// The evaluation of a purchase on which the others have no bearing.
  static func alone(_ evaluate: @escaping Evaluator) -> PartEvaluator {
    { _ in { user, evidence, now in evaluate(user, [evidence], [], now) } }
  }
}
