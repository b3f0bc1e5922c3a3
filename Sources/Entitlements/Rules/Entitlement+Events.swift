import struct FoundationEssentials.Date

extension Entitlement {
  /// The events between the former verdict on a user's purchases to this one, in their order.
  ///
  ///     before ╲ after   running                        in grace                   ended              no purchase
  ///     nothing, ended   started                        started, billing_issue     refunded *         –
  ///     running          renewed, product_changed **    billing_issue              expired ***        expired ***
  ///     in grace         renewed, product_changed **    –                          grace_ended ***    grace_ended
  ///
  /// `*`: only where it was not taken back before. `**`: or `trial.converted`; with `renewal_on` before it and
  /// `renewal_off` after it, where those changed. `***`: `refunded` where it was taken back; `trial.expired` after a
  /// free period.
  ///
  /// - Parameters:
  ///   - before: the verdict on the purchases before; `nil` for a user without one.
  ///   - isDuringTrial: whether a trial of the app's own runs, which a purchase converts.
  package func events(after before: Entitlement?, isDuringTrial: Bool = false) -> [EventType] {
    let former = before?.phase ?? .nothing
    guard let before, former == .running || former == .grace else {
      switch phase {
      case .nothing: return []
      case .ended: return former == .ended && isTakenBack && before?.isTakenBack == false ? [.subscriptionRefunded] : []
      case .running, .grace:
        // A family member's purchase converts no trial.
        let isConversion = isDuringTrial && ownership != .familyShared
        let start: EventType = isTrial ? .trialStarted : isConversion ? .trialConverted : .subscriptionStarted
        return [start] + (phase == .grace ? [.billingIssue] : isRenewalOff ? [.renewalOff] : [])
      }
    }
    switch phase {
    case .nothing, .ended: return [ending(of: before, former)]
    case .running, .grace: return continuation(of: before, former)
    }
  }

  private enum Phase {
    case nothing, running, grace, ended
  }

  private var phase: Phase {
    guard productID != nil else { return .nothing }
    return switch status {
    case .active, .cancelled: .running
    case .gracePeriod: .grace
    case .expired: .ended
    }
  }

  private var isTakenBack: Bool { reason == .refunded || reason == .revoked }

  private func ending(of before: Entitlement, _ former: Phase) -> EventType {
    if isTakenBack { return .subscriptionRefunded }
    if former == .grace { return .graceEnded }
    return before.isTrial ? .trialExpired : .subscriptionExpired
  }

  private func continuation(of before: Entitlement, _ former: Phase) -> [EventType] {
    var events: [EventType] = []
    if before.isRenewalOff, !isRenewalOff, willRenew == true { events.append(.renewalOn) }
    let isOther = productID != before.productID
    let isLater = isOfLaterPeriod(than: before)
    if before.isTrial, !isTrial, isOther || isLater {
      events.append(.trialConverted)
    } else if isOther {
      events.append(.productChanged)
    } else if isLater || former == .grace && phase == .running {
      events.append(.subscriptionRenewed)
    }
    if isRenewalOff, !before.isRenewalOff { events.append(.renewalOff) }
    if phase == .grace, former == .running || isLater { events.append(.billingIssue) }
    return events
  }

  /// Whether the period is a later one. Apple may also prolong a period, which is no renewal.
  private func isOfLaterPeriod(than before: Entitlement) -> Bool {
    guard let former = before.expiresAt, let end = expiresAt, former.isBefore(end) else { return false }
    let isOwnRow = explanation.periodKnownBy == nil && before.explanation.periodKnownBy == nil
    return !isOwnRow || explanation.decidedBy == nil || explanation.decidedBy != before.explanation.decidedBy
  }
}

extension Entitlement {
  /// Whether a grant or a trial of the app's own decided, and no purchase.
  package var isGiven: Bool { source == .grant || source == .trial }
}
