package import struct FoundationEssentials.Date

extension Entitlement {
  /// Evaluates a user over all evidence on the user's purchases.
  ///
  /// Pure: the same evidence, moment, catalog and policy always give the same verdict, in any order.
  ///
  /// - Parameters:
  ///   - evidence: all evidence on each subscription, merged; the caller leaves out store environments that the user
  ///     may not use. Provisional evidence can only add to proven evidence.
  ///   - surroundings: of all the user's evidence, where only a part of it is evaluated.
  ///   - now: the evaluation time; Apple's request time for a fresh answer.
  package static func evaluate(
    _ evidence: [SubscriptionEvidence], among surroundings: PurchaseSurroundings? = nil, at now: Date,
    catalog: Catalog, policy: EntitlementPolicy
  ) -> Entitlement {
    let (states, rowsOfNoProduct) = Self.states(
      of: evidence, among: surroundings, at: now, catalog: catalog, policy: policy)
    let uncatalogued = rowsOfNoProduct.map { $0.passedOver(or: .notCatalogued) }.sorted {
      ($0.transactionID.rawValue, $0.productID.rawValue) < ($1.transactionID.rawValue, $1.productID.rawValue)
    }
    // The entitled state of the highest tier, then of the latest end; if none is entitled, the one that ended last.
    guard let best = states.max(by: { isBelow($0, $1, catalog: catalog) }) else {
      // An unknown product is a gap in the catalog, not a customer without purchases.
      let explanation = Explanation(decidedBy: nil, passedOver: uncatalogued, evaluatedAt: now)
      var none = Entitlement.none(
        tier: catalog.defaultTier, reason: uncatalogued.isEmpty ? .noPurchases : .noKnownProduct,
        explanation: explanation)
      none.environment = environment(of: rowsOfNoProduct)
      return none
    }
    // A purchase in both proven and provisional evidence is listed once, from the better of the two.
    let passedOver = best.passedOver
    let rowsOfBest = [best.row.purchase.transactionID] + passedOver.map(\.transactionID)
    var named = Set(rowsOfBest.map { NamedRow(environment: best.row.evidence.key.environment, transactionID: $0) })
    let others = states.sorted { isBelow($1, $0, catalog: catalog) }.flatMap { other in
      let rows = [other.row.passedOver(or: .otherSubscription)] + other.passedOver
      return rows.filter {
        named.insert(NamedRow(environment: other.row.evidence.key.environment, transactionID: $0.transactionID))
          .inserted
      }
    }
    return Entitlement(best, passedOver: others + passedOver + uncatalogued, catalog: catalog)
  }

  /// The verdicts on the subscriptions that give access, each by itself: the highest tier first, then the latest end.
  package static func running(
    _ evidence: [SubscriptionEvidence], at now: Date, catalog: Catalog, policy: EntitlementPolicy
  ) -> [Entitlement] {
    states(of: evidence, at: now, catalog: catalog, policy: policy).states.filter(\.isEntitled)
      .sorted { isBelow($1, $0, catalog: catalog) }
      .map { Entitlement($0, passedOver: $0.passedOver, catalog: catalog) }
  }

  /// The state of each subscription, and the rows of those without a catalogued product.
  private static func states(
    of evidence: [SubscriptionEvidence], among surroundings: PurchaseSurroundings? = nil, at now: Date,
    catalog: Catalog, policy: EntitlementPolicy
  ) -> (states: [SubscriptionState], rowsOfNoProduct: [SubscriptionGroup.Row]) {
    let proven = evidence.filter { $0.provisionalUntil == nil }
    let groups = SubscriptionGroup.groups(of: proven, among: surroundings, catalog: catalog, policy: policy)
    var states = SubscriptionState.provisional(
      of: evidence.filter { $0.provisionalUntil != nil }, proven: proven, at: now, catalog: catalog, policy: policy)
    var rowsOfNoProduct: [SubscriptionGroup.Row] = []
    for group in groups {
      if let state = group.state(at: now, policy: policy) {
        states.append(state)
      } else {
        rowsOfNoProduct += group.rows
      }
    }
    return (states, rowsOfNoProduct)
  }

  /// A row listed in the explanation. The two stores assign transaction IDs independently.
  private struct NamedRow: Hashable {
    let environment: StoreEnvironment
    let transactionID: TransactionID
  }

  /// The store of the latest purchase; on a tie, production.
  private static func environment(of rows: [SubscriptionGroup.Row]) -> StoreEnvironment? {
    let newest = rows.map(\.purchase.begin).max()
    let environments = rows.filter { $0.purchase.begin == newest }.map(\.evidence.key.environment)
    return environments.contains(.production) ? .production : environments.first
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
    // On the same tier and end, proof ranks above a provisional grant and a held state, then production above the
    // sandbox; then the ID decides, which makes the result independent of the order.
    if a.isProvisional != b.isProvisional { return a.isProvisional }
    if a.isStale != b.isStale { return a.isStale }
    let environments = (a.row.evidence.key.environment, b.row.evidence.key.environment)
    if environments.0 != environments.1 { return environments.0 == .sandbox }
    let ids = (a.row.purchase.transactionID.rawValue, b.row.purchase.transactionID.rawValue)
    if ids.0 != ids.1 { return ids.0 < ids.1 }
    // Only receipts with the same purchase get here, each with its own grant.
    let times = (a.row.evidence.evidenceTime, b.row.evidence.evidenceTime)
    if times.0 != times.1 { return times.0 < times.1 }
    if a.evaluatedAt != b.evaluatedAt { return a.evaluatedAt < b.evaluatedAt }
    let keys = (a.row.evidence.key.originalTransactionID, b.row.evidence.key.originalTransactionID)
    if keys.0 != keys.1 { return keys.0.rawValue < keys.1.rawValue }
    return String(describing: a.row) < String(describing: b.row)
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
      commitmentExpiresAt: state.isEntitled ? state.row.commitmentEnd : nil,
      commitmentRenews: state.isEntitled ? state.row.commitmentRenews : nil,
      nextProductID: next == purchase.productID ? nil : next,
      isTrial: purchase.isTrial,
      ownership: purchase.ownership,
      evidenceTime: state.row.evidence.evidenceTime,
      source: state.row.evidence.source,
      isStale: state.isStale,
      isProvisional: state.isProvisional,
      explanation: Explanation(
        decidedBy: purchase.transactionID,
        periodKnownBy: state.row.isByRenewalInfo ? .renewalInfo : nil, goesOnAs: state.uncataloguedSuccessor,
        passedOver: passedOver, policy: state.policy, evaluatedAt: state.evaluatedAt))
  }
}
