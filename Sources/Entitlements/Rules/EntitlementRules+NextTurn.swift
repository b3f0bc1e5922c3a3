package import struct FoundationEssentials.Date

extension EntitlementRules {
  /// The first moment after `now` at which time alone changes the verdict on a purchase; `nil` for never.
  ///
  /// For a purchase that nobody can be asked about: the app's row has to follow the clock.
  package func nextTurn(of evidence: SubscriptionEvidence, after now: Date) -> Date? {
    let present = state(of: evidence, at: now)
    var moment = now
    // Each date of the evidence gives a handful of moments; ten years of weekly periods are over long before the last.
    for _ in 0..<1_000 {
      guard let next = nextChange(of: [evidence], recorded: nil, after: moment) else { return nil }
      guard state(of: evidence, at: next) == present else { return next }
      moment = next
    }
    return moment
  }

  private func state(of evidence: SubscriptionEvidence, at now: Date) -> Entitlement {
    var verdict = Entitlement.evaluate([evidence], at: now, catalog: catalog, policy: policy)
    verdict.explanation = Explanation(decidedBy: nil, passedOver: [], evaluatedAt: nil)
    return verdict
  }
}
