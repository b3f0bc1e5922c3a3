package import struct FoundationEssentials.Date

extension PurchaseHistory {
  /// How far the signature may lie ahead of our clock. A larger difference means that one of the two clocks is wrong.
  package static let provisionalSkew: Duration = .seconds(300)

  /// The grants of a signed receipt while Apple cannot be asked.
  ///
  ///     product        row                                         granted
  ///     subscription   runs at `now`, by the receipt itself        yes
  ///     subscription   ended, or names no end                      no
  ///     lifetime       any                                         yes
  ///     any            cancelled, upgraded, of another catalog     no
  ///     any            of unknown ownership                        no
  ///
  /// Only the rows that grant are returned: a receipt's past end is not proof of an end. A signature from the future
  /// grants nothing. Its age does not matter: a yearly subscriber's receipt may be months old.
  ///
  /// - Parameter until: the end of the grant, even if the receipt runs longer. Counted from the first time this receipt
  ///   was presented; otherwise presenting it again would prolong the grant.
  package func provisionalEvidence(at now: Date, until: Date, catalog: Catalog) -> [SubscriptionEvidence] {
    guard !isAccountGone, now.isBefore(until),
      !now.advanced(by: Self.provisionalSkew).isBefore(evidenceTime)
    else { return [] }
    let evidence = evidence()
    let periods = NonRenewingPeriods(of: evidence, catalog: catalog)
    return evidence.compactMap { item in
      var item = item
      item.leaveOut(endedBy: [item])
      let readings = item.purchases.map { SubscriptionEvidence.Reading(purchase: $0, reportedAt: item.evidenceTime) }
      let rows = SubscriptionGroup.Row.all(
        periods.completing(readings, in: item.key.environment), of: item, catalog: catalog)
      let granting = Set(
        rows.filter { $0.cause == nil && now.isBefore($0.end) && $0.purchase.ownership != .unknown }.map(
          \.purchase.transactionID))
      item.purchases.removeAll { !granting.contains($0.transactionID) }
      item.renewals = []
      item.provisionalUntil = until
      return item.purchases.isEmpty ? nil : item
    }
  }
}

extension SubscriptionEvidence {
  /// A grant of zero length: it reserves the purchase for the user who presented it, and gives no access.
  package var reserved: SubscriptionEvidence {
    var reserved = self
    reserved.provisionalUntil = evaluatedAt
    return reserved
  }
}
