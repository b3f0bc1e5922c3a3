import struct FoundationEssentials.Date

/// The proven purchases of a user, as the context in which one of them is evaluated, or its next check is set.
package struct PurchaseSurroundings: Sendable {
  private struct Group: Hashable {
    let environment: StoreEnvironment
    let id: SubscriptionGroupID
  }

  /// A non-renewing subscription begins at the end of another.
  let periods: NonRenewingPeriods
  /// Where one purchase is all, nothing follows it.
  private var lastBought: [Group: Date] = [:]
  /// The subscriptions of the only purchase, grouped once for its verdict and its next check; `nil` where there are several.
  private(set) var ofOnlyPurchase: [SubscriptionGroup]?

  /// - Parameter evidence: all of the user's.
  package init(of evidence: [SubscriptionEvidence], catalog: Catalog, policy: EntitlementPolicy) {
    let proven = evidence.filter { $0.provisionalUntil == nil }
    periods = NonRenewingPeriods(of: proven, catalog: catalog)
    guard proven.count > 1 else {
      if !proven.isEmpty {
        ofOnlyPurchase = SubscriptionGroup.groups(of: proven, periods, catalog: catalog, policy: policy)
      }
      return
    }
    for item in proven {
      for purchase in item.purchases {
        guard let id = purchase.subscriptionGroupID else { continue }
        let group = Group(environment: item.key.environment, id: id)
        lastBought[group] = max(lastBought[group] ?? .distantPast, purchase.begin)
      }
    }
  }

  /// Whether a later purchase of the subscription group is known: the sandbox gives each renewal an ID of its own.
  func isFollowed(_ purchase: Purchase, in environment: StoreEnvironment) -> Bool {
    purchase.subscriptionGroupID.flatMap { lastBought[Group(environment: environment, id: $0)] }
      .map(purchase.begin.isBefore) ?? false
  }
}
