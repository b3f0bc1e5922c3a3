package import struct FoundationEssentials.Date

extension SubscriptionEvidence {
  /// The interval of checks during a grace period: it is short, and a payment ends it.
  package static let graceCheckInterval: Duration = .seconds(6 * 3600)
  /// The interval of checks during billing retry.
  package static let retryCheckInterval: Duration = .seconds(86_400)
  /// The shortest delay of a check on a late renewal; the longest is a day.
  package static let lateCheckInterval: Duration = .seconds(60)

  /// The next check of this subscription with Apple; `nil` when time alone changes nothing.
  ///
  ///     state                                                     next check
  ///     runs, renewing or not                                     at its end
  ///     grace period                                              6 h after the answer, at its end at the latest
  ///     billing retry, with access or without                     24 h after the answer, until 60 days after the
  ///                                                               expiry, and where access ends
  ///     over, though it was to renew, and Apple says no           after as long again as it had been over at the
  ///       more: the renewal is late                                 answer: a minute at least, a day at most; until
  ///                                                               60 days after the expiry
  ///     ended since the answer by time (held, unproven, or        now
  ///       before a renewal that was refunded ahead)
  ///     Apple said that it is over: refunded, revoked,            never
  ///       account gone, expired without retry
  ///     lifetime; nothing of the catalog                          never
  ///     provisional                                               never: it is settled, not checked
  ///
  /// An overdue check is due now. The intervals count from the answer, not from `now`, so a repeated evaluation, after
  /// a restart for instance, gives the same time.
  ///
  /// Only this subscription is considered. If an answer omits it, asking again at once is useless; the caller delays
  /// such checks as it does after failures.
  package func nextCheck(at now: Date, catalog: Catalog, policy: EntitlementPolicy) -> Date? {
    guard provisionalUntil == nil else { return nil }
    return SubscriptionGroup.groups(of: [self], catalog: catalog)
      .compactMap { $0.nextCheck(at: now, policy: policy) }
      .min()
      .map { max($0, now) }
  }
}

extension SubscriptionGroup {
  /// A result in the past means that the check is due.
  fileprivate func nextCheck(at now: Date, policy: EntitlementPolicy) -> Date? {
    guard let state = state(at: now, policy: policy) else { return nil }
    if state.isStale { return now }
    switch state.reason {
    case .renewing, .renewalOff: return state.accessUntil
    case .billingGrace:
      return [evaluatedAt.advanced(by: SubscriptionEvidence.graceCheckInterval), state.accessUntil].compactMap { $0 }
        .min()
    case .billingRetry: return nextRetryCheck(of: state)
    case .voluntary, .billingError, .priceIncrease, .productUnavailable, .unknown:
      if state.renewal?.isInBillingRetry == true { return nextRetryCheck(of: state) }
      let isToRenew = state.renewal?.autoRenews == true && state.renewal?.expirationIntent == nil
      return isToRenew ? nextLateCheck(of: state) : nil
    case .refunded, .revoked:
      // A refunded renewal follows a period that still ran: the end came with time and is to be checked once.
      return self.state(at: evaluatedAt, policy: policy)?.isEntitled == true ? now : nil
    case .lifetime, .originalPurchase, .accountGone: return nil
    // Impossible states of a subscription that is neither held nor unproven.
    case .noPurchases, .noKnownProduct, .unproven, .granted, .trial: return nil
    }
  }

  /// Apple has been observed to renew minutes after the expiry, without reporting a retry in between.
  private func nextLateCheck(of state: SubscriptionState) -> Date? {
    let end = state.row.end
    guard evaluatedAt.isBefore(end.advanced(by: EntitlementPolicy.appleBillingRetryWindow)) else { return nil }
    let late = Duration.seconds(max(0, evaluatedAt.timeIntervalSince(end)))
    return evaluatedAt.advanced(
      by: min(max(late, SubscriptionEvidence.lateCheckInterval), SubscriptionEvidence.retryCheckInterval))
  }

  /// The first of: a day after the answer, the end of Apple's own retries, the end of access.
  private func nextRetryCheck(of state: SubscriptionState) -> Date? {
    let daily = evaluatedAt.advanced(by: SubscriptionEvidence.retryCheckInterval)
    let windowEnd = state.row.end.advanced(by: EntitlementPolicy.appleBillingRetryWindow)
    return [daily.isBefore(windowEnd) ? daily : windowEnd, state.accessUntil]
      .compactMap { $0 }
      .filter { evaluatedAt.isBefore($0) }
      .min()
  }
}
