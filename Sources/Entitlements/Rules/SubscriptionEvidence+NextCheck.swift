package import struct FoundationEssentials.Date

extension SubscriptionEvidence {
  /// The interval of checks during a grace period: it is short, and a payment ends it.
  package static let graceCheckInterval: Duration = .seconds(6 * 3600)
  package static let retryCheckInterval: Duration = .seconds(86_400)
  /// When a late renewal is asked about, after the end of the paid period. Later the interval doubles, up to a day.
  static let lateChecks: [Duration] = [.seconds(60), .seconds(120), .seconds(300), .seconds(600)]

  /// The next check of this subscription with Apple; `nil` when time alone changes nothing.
  ///
  ///     state                                                     next check
  ///     runs, renewing or not                                     at its end
  ///     grace period                                              6 h after the answer, at its end at the latest
  ///     billing retry, with access or without                     24 h after the answer, until 60 days after the
  ///                                                               expiry, and where access ends
  ///     over, though it was to renew, and Apple says no           1, 2, 5 and 10 minutes after the end, then after as
  ///       more: the renewal is late                                 long again as it had been over at the answer, a
  ///                                                               day at most, until 60 days after the expiry; and
  ///                                                               where access ends
  ///     non-renewing subscription, within its period              at its end
  ///     non-renewing subscription, refunded                       at the end of the next one: it begins earlier now
  ///     over, Apple says nothing of a renewal, and no later       as if it was to renew
  ///       purchase of the group is known
  ///     the answer does not have the last purchase yet            1, 2, 5 and 10 minutes after the purchase, then 10
  ///                                                               minutes after each answer; beside the others
  ///     the answer does not show a refund of the last hour        the same, after the refund
  ///     ended since the answer by time (held, unproven, or        now
  ///       before a renewal that was refunded ahead)
  ///     Apple said that it is over: otherwise refunded, revoked,  never
  ///       account gone, expired without retry
  ///     lifetime; nothing of the catalog                          never
  ///     provisional                                               never: it is settled, not checked
  ///
  /// An overdue check is due now. The intervals count from the answer, not from `now`, so a repeated evaluation, after
  /// a restart for instance, gives the same time.
  ///
  /// Only this subscription is considered, as it is among the user's others. If an answer omits it, asking again at once
  /// is useless; the caller delays such checks as it does after failures.
  ///
  /// - Parameter surroundings: of all the user's evidence; `nil`: this is all.
  package func nextCheck(
    at now: Date, among surroundings: PurchaseSurroundings? = nil, catalog: Catalog, policy: EntitlementPolicy
  ) -> Date? {
    guard provisionalUntil == nil else { return nil }
    let checks = SubscriptionGroup.groups(of: [self], among: surroundings, catalog: catalog, policy: policy)
      .map { $0.nextCheck(at: now, among: surroundings, policy: policy) }
    return (checks + [nextCheckOfPurchase, nextCheckOfRefund]).compactMap(\.self).min().map { max($0, now) }
  }

  /// The next check of a purchase that the answer does not have yet. An answer that is an hour younger decides.
  private var nextCheckOfPurchase: Date? {
    guard let answeredAt, let begin = purchases.first(where: { $0.transactionID == ahead })?.begin else { return nil }
    return Self.nextCheck(of: begin, after: answeredAt)
  }

  /// The next check of a refund that the answer does not show, and may be behind. The evidence time does not tell an
  /// answer's age: that of a decoded receipt is its creation.
  private var nextCheckOfRefund: Date? {
    guard let refund, let row = purchases.first(where: { $0.transactionID == refund.transactionID }),
      row.cancellationDate == nil, !isPartial(reportedAt: reportedAt(row))
    else { return nil }
    let answer = coverage == .snapshot ? evaluatedAt : answeredAt ?? evaluatedAt
    guard !refund.date.advanced(by: Self.answerLag).isBefore(answer) else { return nil }
    return Self.nextCheck(of: refund.date, after: answer)
  }

  /// Whether the answer may be behind a purchase or refund that Apple has told, so that it is asked about every few minutes.
  package var isAwaited: Bool { ahead != nil || nextCheckOfRefund != nil }

  /// The next check of news that an answer does not have.
  private static func nextCheck(of news: Date, after answer: Date) -> Date {
    lateChecks.map { news.advanced(by: $0) }.first { answer.isBefore($0) } ?? answer.advanced(by: .seconds(600))
  }
}

extension SubscriptionGroup {
  /// A result in the past means that the check is due.
  fileprivate func nextCheck(
    at now: Date, among surroundings: PurchaseSurroundings?, policy: EntitlementPolicy
  ) -> Date? {
    guard let state = state(at: now, policy: policy) else { return nil }
    if state.isHeld { return now }
    switch state.reason {
    case .renewing, .renewalOff, .nonRenewing: return state.accessUntil
    case .billingGrace:
      return [evaluatedAt.advanced(by: SubscriptionEvidence.graceCheckInterval), state.accessUntil].compactMap { $0 }
        .min()
    case .billingRetry: return nextRetryCheck(of: state)
    case .renewalDue: return nextLateCheck(of: state)
    case .voluntary, .billingError, .priceIncrease, .productUnavailable, .unknown:
      if state.renewal?.isInBillingRetry == true || state.renewal?.status == .billingRetry {
        return nextRetryCheck(of: state)
      }
      let row = state.row
      let isToRenew =
        state.renewal.map { $0.autoRenews == true && $0.expirationIntent == nil }
        ?? (state.reason == .unknown && row.cause == nil
          && surroundings?.isFollowed(row.purchase, in: row.evidence.key.environment) != true)
      return isToRenew ? nextLateCheck(of: state) : nil
    case .refunded, .revoked:
      // A refunded renewal follows a period that still ran: the end came with time and is to be checked once.
      if self.state(at: evaluatedAt, policy: policy)?.isEntitled == true { return now }
      guard state.row.product?.kind == .nonRenewing else { return nil }
      return surroundings?.periods.nextEnd(
        after: evaluatedAt, beside: state.row.purchase, in: state.row.evidence.key.environment)
    case .unproven: return now
    case .lifetime, .originalPurchase, .accountGone, .periodOver: return nil
    // Impossible states of a subscription.
    case .noPurchases, .noKnownProduct, .granted, .trial: return nil
    }
  }

  /// Apple has been observed to renew minutes after the expiry, without reporting a retry in between.
  private func nextLateCheck(of state: SubscriptionState) -> Date? {
    let end = state.row.end
    guard evaluatedAt.isBefore(end.advanced(by: EntitlementPolicy.appleBillingRetryWindow)) else { return nil }
    let late = Duration.milliseconds(max(0, evaluatedAt.millisecondsSince1970 - end.millisecondsSince1970))
    let next =
      SubscriptionEvidence.lateChecks.map { end.advanced(by: $0) }.first { evaluatedAt.isBefore($0) }
      ?? evaluatedAt.advanced(by: min(late, SubscriptionEvidence.retryCheckInterval))
    return [next, state.accessUntil].compactMap { $0 }.filter { evaluatedAt.isBefore($0) }.min()
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
