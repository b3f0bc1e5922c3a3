import struct FoundationEssentials.Date

extension SubscriptionState {
  /// The grants at `now` of signed evidence that Apple was not asked about. A grant only adds: it never ends, holds or
  /// lowers anything.
  ///
  /// - Access runs while now < the end of the row and now < `provisionalUntil`, also for a lifetime product.
  /// - Proof of the same key that is as new or newer replaces it.
  /// - A purchase that any proof, however old, reports as revoked or upgraded grants nothing: a receipt does not show
  ///   upgrades, and a reversed refund is for Apple to report.
  /// - It is evaluated apart from proof of its subscription group and from other provisional evidence, so that it can
  ///   only add.
  static func provisional(
    of evidence: [SubscriptionEvidence], proven: [SubscriptionEvidence], at now: Date, catalog: Catalog,
    policy: EntitlementPolicy
  ) -> [SubscriptionState] {
    guard !evidence.isEmpty else { return [] }
    var provenAt: [SubscriptionKey: Date] = [:]
    for item in proven { provenAt[item.key] = max(provenAt[item.key] ?? .distantPast, item.evidenceTime) }
    let ended = PurchaseIdentity.ended(by: proven)
    let value = Explanation.PolicyValue(key: "policy.provisional", value: policy.provisional.configurationText)
    return evidence.flatMap { item -> [SubscriptionState] in
      guard let until = item.provisionalUntil else { return [] }
      // Never before the evidence itself, as for proof.
      let now = max(now, item.evaluatedAt)
      if let provenAt = provenAt[item.key], !provenAt.isBefore(item.evidenceTime) { return [] }
      var item = item
      item.leaveOut(ended)
      return SubscriptionGroup.groups(of: [item], catalog: catalog, policy: policy).compactMap { group in
        guard let row = group.rows.first(where: { $0.cause == nil }) else { return nil }
        let accessUntil = min(row.end, until)
        guard now.isBefore(accessUntil) else { return nil }
        let reason: EntitlementReason =
          switch row.product?.kind {
          case .lifetime: .lifetime
          case .nonRenewing: .nonRenewing
          case .subscription, .consumable, nil: .renewing
          }
        return SubscriptionState(
          group: group, row: row, isEntitled: true, status: .active, reason: reason,
          expiresAt: reason == .lifetime ? nil : row.end, accessUntil: accessUntil, renewal: nil, policy: value,
          evaluatedAt: now, isProvisional: true)
      }
    }
  }
}

extension SubscriptionEvidence {
  /// Leaves out purchases that any proof, however old, reports as revoked or upgraded.
  package mutating func leaveOut(endedBy proof: [SubscriptionEvidence]) { leaveOut(PurchaseIdentity.ended(by: proof)) }

  fileprivate mutating func leaveOut(_ ended: Set<PurchaseIdentity>) {
    purchases.removeAll { !ended.isDisjoint(with: PurchaseIdentity.all(of: $0, in: key.environment)) }
  }
}

/// The identity of a purchase across rows: the transaction, or what stays when a restored purchase gets a new transaction
/// ID: the number of the billing period, or without an expiry the original transaction ID.
private enum PurchaseIdentity: Hashable {
  case transaction(StoreEnvironment, TransactionID)
  case period(StoreEnvironment, String, ProductID, Date)
  case withoutExpiry(PurchaseWithoutExpiry)

  static func ended(by proof: [SubscriptionEvidence]) -> Set<PurchaseIdentity> {
    var ended: Set<PurchaseIdentity> = []
    for item in proof {
      for purchase in item.readings().map(\.purchase) where purchase.cancellationDate != nil || purchase.isUpgraded {
        ended.formUnion(all(of: purchase, in: item.key.environment))
      }
    }
    return ended
  }

  static func all(of purchase: Purchase, in environment: StoreEnvironment) -> Set<PurchaseIdentity> {
    var all: Set = [transaction(environment, purchase.transactionID)]
    if purchase.expiresDate == nil { all.insert(withoutExpiry(PurchaseWithoutExpiry(purchase, in: environment))) }
    if let item = purchase.webOrderLineItemID, !item.isEmpty, let expires = purchase.expiresDate {
      all.insert(period(environment, item, purchase.productID, expires))
    }
    return all
  }
}
