import struct FoundationEssentials.Date

struct SubscriptionState {
  let group: SubscriptionGroup
  /// The deciding row of the subscription.
  var row: SubscriptionGroup.Row
  var isEntitled: Bool
  var status: SubscriptionStatus
  var reason: EntitlementReason
  var expiresAt: Date?
  /// `nil` for lifetime and without access.
  var accessUntil: Date?
  var renewal: RenewalInfo?
  var policy: Explanation.PolicyValue?
  var evaluatedAt: Date
  /// Access is over by time alone, unless Apple said so; a refund or a deleted account was reported.
  var isOverByTime = false
  /// The state ended by its own dates, and stands for want of newer evidence.
  var isHeld = false
  /// Granted on Apple's signature alone.
  var isProvisional = false

  /// Newer evidence is due.
  var isStale: Bool { isHeld || reason == .renewalDue || reason == .unproven }

  /// When this state ended or will end; `distantFuture` for lifetime access. A renewal that is due ranks by the period
  /// that was paid.
  var end: Date {
    if isEntitled, reason != .renewalDue { return accessUntil ?? .distantFuture }
    return row.end
  }

  /// The product that a subscription of no known end goes on under, where the catalog lacks it.
  var uncataloguedSuccessor: ProductID? {
    guard reason == .unknown else { return nil }
    return group.rows.first {
      $0.product == nil && !$0.purchase.isUpgraded && $0.purchase.cancellationDate == nil
        && row.purchase.begin.isBefore($0.purchase.begin) && evaluatedAt.isBefore($0.end)
    }?.purchase.productID
  }

  /// The rows other than the deciding row.
  var passedOver: [Explanation.PassedOver] {
    var others: [Explanation.PassedOver] = []
    others.reserveCapacity(group.rows.count)
    for other in group.rows
    where other.purchase.transactionID != row.purchase.transactionID || other.isByRenewalInfo != row.isByRenewalInfo {
      others.append(other.passedOver(or: .endsEarlier))
    }
    return others
  }
}

extension SubscriptionGroup {
  /// The state at `now`, or `nil` when no row is of a catalogued product.
  ///
  /// A state that ended only by time since Apple was asked is not proof of its end: the renewal may be a minute old. It
  /// stands, marked stale, for `policy.outageHold` more; after that the state is `unproven`.
  func state(at now: Date, policy: EntitlementPolicy) -> SubscriptionState? {
    // Never before the evidence itself: our clock may run behind Apple's.
    let now = max(now, evaluatedAt)
    guard let state = decide(at: now, policy: policy) else { return nil }
    guard state.isOverByTime, var last = lastEntitledState(of: state.row, policy: policy) else { return state }
    // A renewal that is due stands until the later of two ends.
    let held = max(last.end.advanced(by: policy.outageHold), last.accessUntil ?? .distantPast)
    last.policy = Explanation.PolicyValue(key: "policy.outage_hold", value: policy.outageHold.configurationText)
    last.isHeld = true
    last.evaluatedAt = now
    if now.isBefore(held) { return last }
    last.isHeld = false
    last.isEntitled = false
    last.status = .expired
    last.reason = .unproven
    last.accessUntil = nil
    return last
  }

  /// The last state with access that a row's evidence predicts, starting at the time of Apple's report.
  ///
  /// Only the row's own evidence counts. An answer that omits the row, even of the same subscription group, says
  /// nothing about it; nor does another part of partial evidence.
  private func lastEntitledState(of row: Row, policy: EntitlementPolicy) -> SubscriptionState? {
    var last: SubscriptionState?
    var moment = row.evidence.askedAt(row.reading, row.renewal)
    // A grace period, billing retry or a late renewal may follow a paid period: three steps at most.
    for _ in 0..<3 {
      guard let next = decide(at: moment, policy: policy), next.isEntitled else { break }
      last = next
      guard let end = next.accessUntil else { break }
      moment = end
    }
    return last
  }

  /// The decision table: the first line that holds. Access runs while now < end.
  ///
  ///     the last live row                                              status         reason
  ///     a lifetime product                                             active         lifetime
  ///     a non-renewing subscription, before and after its end          active         non_renewing, period_over
  ///     taken back, by Apple's status                                  expired        refunded, revoked
  ///     runs, renewal on or unknown                                    active         renewing
  ///     runs, renewal off                                              cancelled      renewal_off
  ///     runs, renewal on until a commitment ends, and off then         active         renewal_off
  ///     none runs, and the newest row was taken back                   expired        refunded, revoked
  ///     over, and the grace period runs                                grace_period   billing_grace
  ///     over, in billing retry, never a grace period, not ended by     grace_period   billing_retry
  ///       the customer
  ///     over, renewal on, and nobody has said that it ended            active         renewal_due
  ///     otherwise                                                      expired        the expiration intent's
  func decide(at now: Date, policy: EntitlementPolicy) -> SubscriptionState? {
    guard
      let newest = rows.first(where: { $0.product != nil && !$0.purchase.isUpgraded })
        ?? rows.first(where: { $0.product != nil })
    else { return nil }
    // Rows are sorted by their end, so the first live one ends last.
    let last = rows.first { $0.cause == nil }
    let decidingRow = last ?? newest
    let renewal = decidingRow.renewal

    func state(
      _ status: SubscriptionStatus, _ reason: EntitlementReason, of row: Row? = nil,
      until accessUntil: Date? = nil, entitled: Bool = true, byTime: Bool = false,
      policy: Explanation.PolicyValue? = nil
    ) -> SubscriptionState {
      let row = row ?? decidingRow
      let end = entitled ? row.end : row.knownEnd(at: now)
      return SubscriptionState(
        group: self, row: row, isEntitled: entitled, status: status, reason: reason,
        expiresAt: end == .distantFuture || end == .distantPast ? nil : end,
        accessUntil: entitled ? accessUntil : nil, renewal: row.renewal, policy: policy,
        evaluatedAt: now, isOverByTime: byTime)
    }
    func takenBack(_ row: Row) -> SubscriptionState {
      state(.expired, row.purchase.ownership == .familyShared ? .revoked : .refunded, of: row, entitled: false)
    }

    if let last, last.product?.kind == .lifetime {
      return state(.active, last.evidence.key.isOfApp ? .originalPurchase : .lifetime)
    }
    if let last, last.product?.kind != .nonRenewing, let told = revocation(of: last, by: renewal) {
      var state = takenBack(last)
      // Apple names no date of it.
      state.expiresAt = min(last.end, told)
      return state
    }
    if let last, now.isBefore(last.end) {
      if last.product?.kind == .nonRenewing { return state(.active, .nonRenewing, until: last.end) }
      if renewal?.autoRenews == false { return state(.cancelled, .renewalOff, until: last.end) }
      return state(.active, last.commitmentRenews == false ? .renewalOff : .renewing, until: last.end)
    }
    if newest.cause == .accountGone {
      var state = state(.expired, .accountGone, of: newest, entitled: false)
      // Without the account nothing renews.
      state.renewal = nil
      return state
    }
    if newest.purchase.cancellationDate != nil, !newest.purchase.isUpgraded { return takenBack(newest) }
    guard let last else {
      return state(
        .expired, EntitlementReason(expirationIntent: renewal?.expirationIntent), entitled: false, byTime: true)
    }
    if last.product?.kind == .nonRenewing { return state(.expired, .periodOver, entitled: false) }

    let ending = Ending(of: last, renewal)
    if ending.status == .revoked { return takenBack(last) }
    if let grace = ending.graceEnd, now.isBefore(grace) { return state(.gracePeriod, .billingGrace, until: grace) }
    var value: Explanation.PolicyValue?
    if ending.isRetried {
      let until = last.end.advanced(by: policy.billingRetryAccess)
      value = Explanation.PolicyValue(
        key: "policy.billing_retry_access", value: policy.billingRetryAccess.configurationText)
      if now.isBefore(until) { return state(.gracePeriod, .billingRetry, until: until, policy: value) }
    } else if ending.isDue {
      let until = last.end.advanced(by: policy.lateRenewal)
      value = Explanation.PolicyValue(key: "policy.late_renewal", value: policy.lateRenewal.configurationText)
      if now.isBefore(until) { return state(.active, .renewalDue, until: until, policy: value) }
    }
    return state(.expired, ending.reason, entitled: false, byTime: true, policy: value)
  }

  /// When Apple's status said that a row was taken back, where the row's own date does not. A later report of the row
  /// without it lifts it, and the status is that of a later purchase where one was taken back.
  private func revocation(of row: Row, by renewal: RenewalInfo?) -> Date? {
    guard let renewal, renewal.status == .revoked else { return nil }
    let told = row.evidence.reportedAt(renewal)
    let isOfLaterPurchase = rows.contains {
      $0.originalTransactionID == row.originalTransactionID && $0.purchase.cancellationDate != nil
        && row.purchase.begin.isBefore($0.purchase.begin)
    }
    return told.isBefore(row.reportedAt) || isOfLaterPurchase ? nil : told
  }

  /// Apple's report on a row that is over. Apple's own status counts if it is newer than the row's end; it stands above
  /// the flags, and the customer's own end (intent 1) stands above it.
  private struct Ending {
    /// Apple's status; `nil` where none was told after the end.
    var status: RenewalInfo.Status?
    /// The end of the grace period, past or not; `nil` where none is known to run.
    var graceEnd: Date?
    /// Whether Apple tries to charge the customer, and granted no grace period before.
    var isRetried = false
    /// Whether Apple was asked since, and says that the subscription goes on.
    var isDue = false
    var reason: EntitlementReason

    init(of row: Row, _ renewal: RenewalInfo?) {
      let (end, evidence) = (row.end, row.evidence)
      let intent = renewal?.expirationIntent
      let grace = KnownGrace.latest(evidence.grace, renewal.flatMap(evidence.grace))?.granted(after: end)
      // A date at or before the row's end is another period's.
      let named = renewal?.gracePeriodExpiresDate.flatMap { end.isBefore($0) ? $0 : nil }
      let wasGranted = grace != nil || named != nil
      reason = intent == 1 || !wasGranted ? EntitlementReason(expirationIntent: intent) : .billingError
      guard let renewal else { return }
      status = evidence.saidAt(evidence.reportedAt(renewal)).isBefore(end) ? nil : renewal.status
      graceEnd =
        switch status {
        case .expired, .billingRetry, .revoked: named
        // The customer's own end leaves only what is named with it.
        case .active, .billingGracePeriod, nil: named ?? (intent == 1 ? nil : grace?.lastEnd(after: end))
        }
      guard intent != 1, !wasGranted else { return }
      isRetried = status.map { $0 == .billingRetry } ?? (renewal.isInBillingRetry == true)
      isDue =
        status.map { $0 == .active }
        ?? (renewal.autoRenews == true && intent == nil && !isRetried
          && (evidence.isAnswered(since: end) || !evidence.askedAt(row.reading, renewal).isBefore(end)))
    }
  }
}
