package import Entitlements
package import struct FoundationEssentials.Date

/// The rules of verdicts. Pure: they run inside the ledger's transaction.
package protocol VerdictRules: Sendable {
  /// - Parameter evidence: all of a user's.
  func surroundings(of evidence: [SubscriptionEvidence]) -> PurchaseSurroundings

  /// Evaluates a user over evidence at a moment.
  /// - Parameter surroundings: of all the user's evidence; `nil`: this is all.
  func evaluate(
    _ user: UserID, _ evidence: [SubscriptionEvidence], among surroundings: PurchaseSurroundings?,
    given: [GivenPeriod], at now: Date
  ) -> Entitlement

  /// The time of a subscription's next check with Apple, as known at a moment; `nil` for never.
  func nextCheck(of evidence: SubscriptionEvidence, among surroundings: PurchaseSurroundings, at now: Date) -> Date?
}

extension EntitlementRules: VerdictRules {}

/// The time of a subscription's next check, as known at a moment; `nil` for never. Pure.
package typealias NextCheck = @Sendable (_ evidence: SubscriptionEvidence, _ now: Date) -> Date?

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
  package var rules: any VerdictRules
  /// Every account token is the ID of a user (`policy.app_account_token`).
  package var tokensAreUserIDs: Bool
  /// Apple is told the users of purchases that do not name them.
  package var tellsAccountTokens: Bool

  package init(
    evaluatedAt: Date, recordedAt: Date, tokensAreUserIDs: Bool = false, tellsAccountTokens: Bool = false,
    rules: any VerdictRules
  ) {
    self.evaluatedAt = evaluatedAt.inWholeMilliseconds
    self.recordedAt = recordedAt.inWholeMilliseconds
    self.tokensAreUserIDs = tokensAreUserIDs
    self.tellsAccountTokens = tellsAccountTokens
    self.rules = rules
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
    return rules.evaluate(
      user, bought.filter { !$0.purchases.isEmpty }, among: nil, given: [], at: evaluatedAt
    ).productID != nil
  }

  /// Whether a user's purchases give as much by now as a trial would that went on.
  func covers(_ trial: GivenPeriod, of user: UserID, _ evidence: [SubscriptionEvidence]) -> Bool {
    var trial = trial
    trial.endsAt = .distantFuture
    return rules.evaluate(user, evidence, among: nil, given: [trial], at: evaluatedAt).source != trial.source
  }
}
