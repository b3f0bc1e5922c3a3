package import struct FoundationEssentials.Date

extension EntitlementRules {
  /// The end of the access that a verdict gives. A verdict held in an outage gives access until the end of the hold.
  /// - Returns: `nil` for access without an end, and for the tier that everybody has.
  package func accessEnd(of verdict: Entitlement, at now: Date) -> Date? {
    guard catalog.rank(of: verdict.tier) > 0, let end = verdict.accessUntil else { return nil }
    return now.isBefore(end) ? end : end.advanced(by: policy.outageHold)
  }

  /// The verdict on a user without a new answer from Apple: the evidence evaluated now, but never less than the
  /// recorded verdict merely because the rules have changed since.
  ///
  ///     now is from …                        the start           the recorded end    the end + outage hold
  ///     lower by the rules                   recorded, stale     recorded, stale     as evaluated now
  ///     lower by time, or not lower          as evaluated now    as evaluated now    as evaluated now
  package func standing(
    of user: UserID, _ evidence: [SubscriptionEvidence], given: [GivenPeriod] = [], recorded: Entitlement?, at now: Date
  ) -> Entitlement {
    let verdict = evaluate(user, evidence, given: given, at: now)
    guard var recorded, withholds(verdict, from: user, evidence, given: given, recorded: recorded, at: now) else {
      return verdict
    }
    recorded.isStale = true
    recorded.tier = catalog.current(recorded.tier)
    return recorded
  }

  /// The first moment after `now` at which a standing may be another one; `nil` if time alone changes nothing.
  ///
  /// Every rule compares the time with a date of the evidence, or with one that lies a policy's duration after it. A
  /// moment may be named at which nothing changes; none is left out.
  package func nextChange(
    of evidence: [SubscriptionEvidence], given: [GivenPeriod] = [], recorded: Entitlement?, after now: Date
  ) -> Date? {
    let now = now.inWholeMilliseconds
    var dates = [recorded?.accessUntil, recorded?.expiresAt]
    for period in given { dates += [period.startsAt, period.endsAt] }
    dates += NonRenewingPeriods(of: evidence, catalog: catalog).dates.map { $0 }
    for one in evidence {
      dates += [one.grace?.until, one.grace?.runningAt, one.grace?.overAt]
      dates += [one.provisionalUntil, one.evidenceTime, one.evaluatedAt]
      for purchase in one.purchases {
        dates += [purchase.expiresDate, purchase.cancellationDate, purchase.purchaseDate, purchase.reportedAt]
      }
      for renewal in one.renewals { dates += [renewal.gracePeriodExpiresDate, renewal.periodEnd, renewal.reportedAt] }
    }
    let delays: [Duration] = [
      .zero, policy.billingRetryAccess, policy.outageHold, policy.billingRetryAccess + policy.outageHold,
      EntitlementPolicy.appleBillingRetryWindow, EntitlementPolicy.appleBillingRetryWindow + policy.outageHold,
      policy.provisional, policy.lateRenewal, EntitlementPolicy.undatedGrace, EntitlementPolicy.longestGrace,
      EntitlementPolicy.undatedGrace + policy.outageHold, EntitlementPolicy.longestGrace + policy.outageHold,
    ]
    var next: Date?
    for date in dates {
      guard let date else { continue }
      for delay in delays {
        let moment = date.advanced(by: delay)
        if moment > now, next.map({ moment < $0 }) ?? true { next = moment }
      }
    }
    return next
  }

  /// Whether a verdict is lower only because of the rules: a product removed from the catalog, or a sandbox purchase
  /// that is no longer accepted.
  ///
  /// Before its end, time lowers no verdict. After its end, time did if today's rules would have given as much at the
  /// recorded evaluation time.
  ///
  /// - Parameter verdict: the evidence evaluated now.
  package func withholds(
    _ verdict: Entitlement, from user: UserID, _ evidence: [SubscriptionEvidence], given: [GivenPeriod] = [],
    recorded: Entitlement, at now: Date
  ) -> Bool {
    if let id = recorded.explanation.givenBy, let period = given.first(where: { $0.id == id }) {
      // While the period runs, nothing but a catalog without its tier gives less.
      return period.isRunning(at: now) && catalog.rank(of: verdict.tier) < catalog.rank(of: recorded.tier)
    }
    guard isLowering(recorded, verdict), evidence.contains(where: recorded.isGiven) else { return false }
    // A lifetime purchase ends only by Apple's report.
    guard let end = recorded.accessUntil else { return true }
    if now.isBefore(end) { return true }
    // A provisional grant has no outage hold.
    guard !recorded.isProvisional, now.isBefore(end.advanced(by: policy.outageHold)) else { return false }
    let evaluatedAt = recorded.explanation.evaluatedAt ?? recorded.evidenceTime ?? end
    return isLowering(recorded, evaluate(user, evidence, given: given, at: evaluatedAt))
  }
}

extension Entitlement {
  /// Whether evidence is on the purchase that gives this verdict its tier.
  fileprivate func isGiven(by evidence: SubscriptionEvidence) -> Bool {
    evidence.key.environment == environment
      && (evidence.key.originalTransactionID == originalTransactionID
        || evidence.purchases.contains { $0.originalTransactionID == originalTransactionID })
  }
}

extension EntitlementRules {
  /// The first moment after `now` at which time alone changes the verdict on a purchase; `nil` for none before the limit.
  ///
  /// For a purchase that nobody can be asked about: the app's row has to follow the clock.
  package func nextTurn(
    of evidence: SubscriptionEvidence, after now: Date, before limit: Date = .distantFuture
  ) -> Date? {
    let present = state(of: evidence, at: now)
    var moment = now
    // Each date of the evidence gives a handful of moments; ten years of weekly periods are over long before the last.
    for _ in 0..<1_000 {
      guard let next = nextChange(of: [evidence], recorded: nil, after: moment), next < limit else { return nil }
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
