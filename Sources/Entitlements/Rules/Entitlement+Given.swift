import struct FoundationEssentials.Date

extension Entitlement {
  /// The verdict `self` by the purchases, with grants and trials added.
  ///
  ///     running                                     status, tier, reason
  ///     a grant above what the purchases give       active, the grant's, granted
  ///     a trial above what the purchases give       active, the trial's, trial
  ///
  /// The highest tier decides, then a paid one, then the latest end. `accessUntil` is the end of unbroken access at
  /// this tier or above, so that a grant behind a purchase is seen. A period that is over says nothing.
  ///
  /// - Parameter now: the evaluation time.
  func adding(_ given: [GivenPeriod], at now: Date, catalog: Catalog) -> Entitlement {
    let counting = given.filter { catalog.lists($0.tier) && catalog.rank(of: $0.tier) > 0 && now.isBefore($0.endsAt) }
    guard !counting.isEmpty else { return self }
    let bought = givesAccess ? catalog.rank(of: tier) : 0
    let best = counting.filter { $0.isRunning(at: now) && catalog.rank(of: $0.tier) > bought }.max { a, b in
      let ranks = (catalog.rank(of: a.tier), catalog.rank(of: b.tier))
      return ranks.0 == ranks.1 ? (a.endsAt, a.id) < (b.endsAt, b.id) : ranks.0 < ranks.1
    }
    var verdict = best.map { Entitlement($0, catalog.current($0.tier), over: self, at: now) } ?? self
    // A tier without a purchase has no end to begin behind.
    guard best != nil || givesAccess, var end = verdict.accessUntil else { return verdict }
    let rank = catalog.rank(of: verdict.tier)
    for period in counting.sorted(by: { $0.startsAt < $1.startsAt }) where catalog.rank(of: period.tier) >= rank {
      // A purchase that is held after its end gives access until now.
      if period.startsAt <= max(end, now) { end = max(end, period.endsAt) }
    }
    verdict.accessUntil = end
    return verdict
  }

  /// - Parameter tier: the period's, by its name of today.
  private init(_ period: GivenPeriod, _ tier: Tier, over bought: Entitlement, at now: Date) {
    let isTrial = period.kind == .trial
    // The purchase that would have decided is listed first among those that did not.
    var passedOver = bought.explanation.passedOver
    if let decided = bought.explanation.decidedBy, let product = bought.productID {
      passedOver.insert(.init(transactionID: decided, productID: product, cause: .otherSubscription), at: 0)
    }
    var explanation = Explanation(
      decidedBy: nil, passedOver: passedOver, evaluatedAt: bought.explanation.evaluatedAt ?? now)
    explanation.passedOverCount += bought.explanation.passedOverCount - bought.explanation.passedOver.count
    explanation.givenBy = period.id
    self = .none(tier: tier, reason: isTrial ? .trial : .granted, explanation: explanation)
    expiresAt = period.endsAt
    accessUntil = period.endsAt
    willRenew = false
    self.isTrial = isTrial
    evidenceTime = bought.evidenceTime
    source = period.source
  }
}
