/// An event of a customer that the store reports to the app's server.
struct StoreEvent: Hashable, Sendable {
  var at: Timestamp
  /// Apple's notificationType.
  var type: String
  /// Apple's subtype, if the type has one.
  var subtype: String?
  /// The transaction of the event.
  var row: CustomerState.Row
}

extension StoreEvent {
  /// The events of a customer after `from`, up to and including `to`, in order.
  ///
  /// They are derived from the states before and after each moment of the timeline.
  static func events(in timeline: Timeline, after from: Timestamp, through to: Timestamp) -> [StoreEvent] {
    timeline.moments(after: from, through: to).flatMap { moment in
      let before = timeline.state(at: moment.before)
      let after = timeline.state(at: moment)
      let slots = Set(after.rows.map(\.slot)).sorted()
      return slots.flatMap { Change(slot: $0, before: before, after: after).events(at: moment) }
    }
  }
}

/// One slot of a customer, before and after a moment.
private struct Change {
  var rowsBefore: [CustomerState.Row]
  var rowsAfter: [CustomerState.Row]
  var before: CustomerState.Renewal?
  var after: CustomerState.Renewal?

  init(slot: Int, before: CustomerState, after: CustomerState) {
    rowsBefore = before.rows.filter { $0.slot == slot }
    rowsAfter = after.rows.filter { $0.slot == slot }
    self.before = before.renewals.first { $0.slot == slot }
    self.after = after.renewals.first { $0.slot == slot }
  }

  func events(at moment: Timestamp) -> [StoreEvent] {
    guard let newest = rowsAfter.last else { return [] }
    var events = revocations(at: moment) + extensions(at: moment)
    let changes =
      rowsAfter.count > rowsBefore.count ? [purchase(newest)] : after.map { prospects($0, newest, at: moment) } ?? []
    events += changes.map { StoreEvent(at: moment, type: $0.0, subtype: $0.1, row: newest) }
    return events
  }

  /// Refunds, and ends of family sharing. A transaction replaced by an upgrade is reported by the upgrade only.
  private func revocations(at moment: Timestamp) -> [StoreEvent] {
    rowsAfter.filter { row in
      row.cancelledAt != nil && !row.isUpgraded
        && rowsBefore.contains { $0.number == row.number && $0.cancelledAt == nil }
    }.map { StoreEvent(at: moment, type: $0.isFamilyShared ? "REVOKE" : "REFUND", subtype: nil, row: $0) }
  }

  private func extensions(at moment: Timestamp) -> [StoreEvent] {
    rowsAfter.filter { row in
      rowsBefore.contains { before in
        guard before.number == row.number, let former = before.expiresAt, let end = row.expiresAt else { return false }
        return former < end
      }
    }.map { StoreEvent(at: moment, type: "RENEWAL_EXTENDED", subtype: nil, row: $0) }
  }

  private func purchase(_ new: CustomerState.Row) -> (String, String?) {
    guard new.product.isSubscription else { return ("ONE_TIME_CHARGE", nil) }
    if rowsBefore.isEmpty, new.formerSlot != nil { return ("MIGRATION", nil) }
    guard !rowsBefore.isEmpty else { return ("SUBSCRIBED", "INITIAL_BUY") }
    if new.isRenewal {
      return ("DID_RENEW", before?.phase == .grace || before?.phase == .retry ? "BILLING_RECOVERY" : nil)
    }
    let wasUpgraded = rowsAfter.contains { row in
      row.isUpgraded && rowsBefore.contains { $0.number == row.number && !$0.isUpgraded }
    }
    return wasUpgraded ? ("DID_CHANGE_RENEWAL_PREF", "UPGRADE") : ("SUBSCRIBED", "RESUBSCRIBE")
  }

  /// The renewal's events, without a purchase.
  private func prospects(
    _ after: CustomerState.Renewal, _ newest: CustomerState.Row, at moment: Timestamp
  ) -> [(String, String?)] {
    guard let before, let end = newest.expiresAt else { return [] }
    if moment < end {
      var changes: [(String, String?)] = []
      if before.isOn != after.isOn || before.commitmentRenews != after.commitmentRenews {
        let goesOn = after.isOn && after.commitmentRenews != false
        changes.append(("DID_CHANGE_RENEWAL_STATUS", goesOn ? "AUTO_RENEW_ENABLED" : "AUTO_RENEW_DISABLED"))
      }
      if before.nextProduct != after.nextProduct {
        // A crossgrade to another duration also waits for the period's end, and has the same subtype.
        changes.append(("DID_CHANGE_RENEWAL_PREF", after.nextProduct == after.product ? nil : "DOWNGRADE"))
      }
      return changes
    }
    guard after.phase != before.phase else { return [] }
    switch after.phase {
    case .running, .due: return []
    case .grace: return [("DID_FAIL_TO_RENEW", "GRACE_PERIOD")]
    case .retry: return [before.phase == .grace ? ("GRACE_PERIOD_EXPIRED", nil) : ("DID_FAIL_TO_RENEW", nil)]
    // A revoked transaction has already ended.
    case .ended: return newest.cancelledAt == nil ? [("EXPIRED", after.expiredSubtype)] : []
    }
  }
}

extension CustomerState.Renewal {
  fileprivate var expiredSubtype: String? {
    switch intent {
    case 1: "VOLUNTARY"
    case 2: "BILLING_RETRY"
    case 3: "PRICE_INCREASE"
    case 4: "PRODUCT_NOT_FOR_SALE"
    default: nil
    }
  }
}
