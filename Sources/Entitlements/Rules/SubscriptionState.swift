import struct FoundationEssentials.Date

/// The state of one subscription at a moment.
struct SubscriptionState {
  let group: SubscriptionGroup
  /// The deciding row of the subscription.
  var row: SubscriptionGroup.Row
  var isEntitled: Bool
  var status: SubscriptionStatus
  var reason: EntitlementReason
  /// The line of the decision table; `nil` where the table does not apply.
  var line: Int?
  var expiresAt: Date?
  /// `nil` for lifetime and without access.
  var accessUntil: Date?
  var renewal: RenewalInfo?
  var policy: Explanation.PolicyValue?
  var evaluatedAt: Date
  var isStale = false
  /// Granted on Apple's signature alone.
  var isProvisional = false

  /// When this state ended or will end; `distantFuture` for lifetime access.
  var end: Date {
    if isEntitled { return accessUntil ?? .distantFuture }
    return row.end
  }

  /// The rows other than the deciding row.
  var passedOver: [Explanation.PassedOver] {
    group.rows.filter {
      $0.purchase.transactionID != row.purchase.transactionID || $0.isByRenewalInfo != row.isByRenewalInfo
    }.map {
      Explanation.PassedOver(
        transactionID: $0.purchase.transactionID, productID: $0.purchase.productID, cause: $0.cause ?? .endsEarlier)
    }
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
    // Only line 7 is reached by time alone; a refund or a deleted account was reported.
    guard state.line == 7, var last = lastEntitledState(of: state.row, policy: policy) else { return state }
    let held = last.end.advanced(by: policy.outageHold)
    last.policy = Explanation.PolicyValue(key: "policy.outage_hold", value: policy.outageHold.configurationText)
    last.isStale = true
    last.evaluatedAt = now
    if now.isBefore(held) { return last }
    last.isEntitled = false
    last.status = .expired
    last.reason = .unproven
    last.line = nil
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
    // A grace period and billing retry may follow a paid period: three steps at most.
    for _ in 0..<3 {
      guard let next = decide(at: moment, policy: policy), next.isEntitled else { break }
      last = next
      guard let end = next.accessUntil else { break }
      moment = end
    }
    return last
  }

  /// The decision table: the first matching line. Access runs while now < end.
  private func decide(at now: Date, policy: EntitlementPolicy) -> SubscriptionState? {
    guard
      let newest = rows.first(where: { $0.product != nil && !$0.purchase.isUpgraded })
        ?? rows.first(where: { $0.product != nil })
    else { return nil }
    // Rows are sorted by their end, so the first live one ends last.
    let last = rows.first { $0.cause == nil }
    let decidingRow = last ?? newest
    let renewal = decidingRow.renewal

    func state(
      _ line: Int?, _ status: SubscriptionStatus, _ reason: EntitlementReason, of row: Row? = nil,
      until accessUntil: Date? = nil, entitled: Bool = true, policy: Explanation.PolicyValue? = nil
    ) -> SubscriptionState {
      let row = row ?? decidingRow
      return SubscriptionState(
        group: self, row: row, isEntitled: entitled, status: status, reason: reason, line: line,
        expiresAt: row.end == .distantFuture || row.end == .distantPast ? nil : row.end,
        accessUntil: entitled ? accessUntil : nil, renewal: row.renewal, policy: policy,
        evaluatedAt: now)
    }

    if let last, last.product?.kind == .lifetime {
      return state(1, .active, last.evidence.key.isOfApp ? .originalPurchase : .lifetime)
    }
    if let last, now.isBefore(last.end) {
      return renewal?.autoRenews == false
        ? state(3, .cancelled, .renewalOff, until: last.end)
        : state(2, .active, .renewing, until: last.end)
    }
    if newest.cause == .accountGone {
      return state(nil, .expired, .accountGone, of: newest, entitled: false)
    }
    if newest.purchase.cancellationDate != nil, !newest.purchase.isUpgraded {
      let reason: EntitlementReason = newest.purchase.ownership == .familyShared ? .revoked : .refunded
      return state(4, .expired, reason, of: newest, entitled: false)
    }
    if let last {
      if let grace = renewal?.gracePeriodExpiresDate {
        if now.isBefore(grace) { return state(5, .gracePeriod, .billingGrace, until: grace) }
      } else if renewal?.isInBillingRetry == true {
        let until = last.end.advanced(by: policy.billingRetryAccess)
        let value = Explanation.PolicyValue(
          key: "policy.billing_retry_access", value: policy.billingRetryAccess.configurationText)
        if now.isBefore(until) { return state(6, .gracePeriod, .billingRetry, until: until, policy: value) }
        return state(
          7, .expired, EntitlementReason(expirationIntent: renewal?.expirationIntent), entitled: false, policy: value)
      }
    }
    return state(7, .expired, EntitlementReason(expirationIntent: renewal?.expirationIntent), entitled: false)
  }
}
