package import struct FoundationEssentials.Date

extension Entitlement {
  /// Judges a user over everything known of their purchases.
  ///
  /// Pure: the same evidence, moment, catalog and policy always give the same verdict, in whatever order they come.
  ///
  /// - Parameters:
  ///   - evidence: the newest of each subscription; evidence of a store environment that the user may not use is left out
  ///     by the caller.
  ///   - now: the moment to judge at; Apple's request time where an answer is at hand.
  package static func judge(
    _ evidence: [SubscriptionEvidence], at now: Date, catalog: Catalog, policy: EntitlementPolicy
  ) -> Entitlement {
    let groups = SubscriptionGroup.groups(of: evidence, catalog: catalog)
    var states: [SubscriptionState] = []
    var uncatalogued: [Explanation.PassedOver] = []
    for group in groups {
      if let state = group.state(at: now, policy: policy) {
        states.append(state)
      } else {
        uncatalogued += group.rows.map {
          Explanation.PassedOver(
            transactionID: $0.purchase.transactionID, productID: $0.purchase.productID, cause: .notCatalogued)
        }
      }
    }
    uncatalogued.sort {
      ($0.transactionID.rawValue, $0.productID.rawValue) < ($1.transactionID.rawValue, $1.productID.rawValue)
    }
    guard let best = best(of: states, catalog: catalog) else {
      // A row we do not know is a gap in the catalog, not a customer without purchases.
      let explanation = Explanation(line: nil, decidedBy: nil, passedOver: uncatalogued, judgedAt: now)
      return .none(
        tier: catalog.defaultTier, reason: uncatalogued.isEmpty ? .noPurchases : .noKnownProduct,
        explanation: explanation)
    }
    let others = states.filter { !isSame($0, best) }.sorted { isBelow($1, $0, catalog: catalog) }.flatMap { other in
      [
        Explanation.PassedOver(
          transactionID: other.row.purchase.transactionID, productID: other.row.purchase.productID,
          cause: other.row.cause ?? .otherSubscription)
      ] + other.passedOver
    }
    return Entitlement(best, passedOver: others + best.passedOver + uncatalogued, catalog: catalog)
  }

  /// The entitled one of the highest tier, then the one that ends last; if none is entitled, the one that ended last.
  private static func best(of states: [SubscriptionState], catalog: Catalog) -> SubscriptionState? {
    states.max { isBelow($0, $1, catalog: catalog) }
  }

  private static func isBelow(_ a: SubscriptionState, _ b: SubscriptionState, catalog: Catalog) -> Bool {
    func rank(_ state: SubscriptionState) -> Int {
      guard state.isEntitled, let product = state.row.product else { return -1 }
      return catalog.rank(of: product.tier)
    }
    if a.isEntitled != b.isEntitled { return b.isEntitled }
    let ranks = (rank(a), rank(b))
    if ranks.0 != ranks.1 { return ranks.0 < ranks.1 }
    if a.end != b.end { return a.end < b.end }
    // Proof beats a held state of the same tier and end, then a real purchase one of the sandbox; then the ID decides, so
    // that order never does.
    if a.isStale != b.isStale { return a.isStale }
    let environments = (a.row.evidence.key.environment, b.row.evidence.key.environment)
    if environments.0 != environments.1 { return environments.0 == .sandbox }
    return a.row.purchase.transactionID.rawValue < b.row.purchase.transactionID.rawValue
  }

  /// Whether two states are of one subscription. The two stores hand out transaction IDs independently.
  private static func isSame(_ a: SubscriptionState, _ b: SubscriptionState) -> Bool {
    a.row.purchase.transactionID == b.row.purchase.transactionID
      && a.row.evidence.key.environment == b.row.evidence.key.environment
  }

  private init(_ state: SubscriptionState, passedOver: [Explanation.PassedOver], catalog: Catalog) {
    let purchase = state.row.purchase
    let next = state.renewal?.autoRenewProductID
    self.init(
      tier: state.isEntitled ? state.row.product?.tier ?? catalog.defaultTier : catalog.defaultTier,
      status: state.status,
      reason: state.reason,
      expiresAt: state.expiresAt,
      accessUntil: state.accessUntil,
      productID: purchase.productID,
      originalTransactionID: purchase.originalTransactionID,
      environment: state.row.evidence.key.environment,
      willRenew: state.renewal?.autoRenews,
      nextProductID: next == purchase.productID ? nil : next,
      isTrial: purchase.isTrial,
      ownership: purchase.ownership,
      evidenceTime: state.row.evidence.evidenceTime,
      source: state.row.evidence.source,
      isStale: state.isStale,
      isProvisional: false,
      explanation: Explanation(
        line: state.line, decidedBy: purchase.transactionID, passedOver: passedOver, policy: state.policy,
        judgedAt: state.judgedAt))
  }
}
