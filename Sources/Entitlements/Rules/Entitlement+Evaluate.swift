package import struct FoundationEssentials.Date

extension Entitlement {
  /// Judges a user over everything known of their purchases.
  ///
  /// Pure: the same evidence, moment, catalog and policy always give the same verdict, in whatever order they come.
  ///
  /// - Parameters:
  ///   - evidence: all that is known of each subscription, merged; evidence of a store environment that the user may not use is left out
  ///     by the caller. Provisional evidence can only add to what is proven.
  ///   - now: the moment to judge at; Apple's request time where an answer is at hand.
  package static func evaluate(
    _ evidence: [SubscriptionEvidence], at now: Date, catalog: Catalog, policy: EntitlementPolicy
  ) -> Entitlement {
    let proven = evidence.filter { $0.provisionalUntil == nil }
    let groups = SubscriptionGroup.groups(of: proven, catalog: catalog)
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
    let uncatalogued = rowsOfNoProduct.map {
      Explanation.PassedOver(
        transactionID: $0.purchase.transactionID, productID: $0.purchase.productID, cause: .notCatalogued)
    }.sorted {
      ($0.transactionID.rawValue, $0.productID.rawValue) < ($1.transactionID.rawValue, $1.productID.rawValue)
    }
    guard let best = best(of: states, catalog: catalog) else {
      // A row we do not know is a gap in the catalog, not a customer without purchases.
      let explanation = Explanation(line: nil, decidedBy: nil, passedOver: uncatalogued, evaluatedAt: now)
      var none = Entitlement.none(
        tier: catalog.defaultTier, reason: uncatalogued.isEmpty ? .noPurchases : .noKnownProduct,
        explanation: explanation)
      none.environment = environment(of: rowsOfNoProduct)
      return none
    }
    // A purchase may be told twice, by proof and provisionally: it is named once, as its best telling has it.
    let rowsOfBest = [best.row.purchase.transactionID] + best.passedOver.map(\.transactionID)
    var reported = Set(
      rowsOfBest.map { ReportedRow(environment: best.row.evidence.key.environment, transactionID: $0) })
    let others = states.sorted { isBelow($1, $0, catalog: catalog) }.flatMap { other in
      let rows =
        [
          Explanation.PassedOver(
            transactionID: other.row.purchase.transactionID, productID: other.row.purchase.productID,
            cause: other.row.cause ?? .otherSubscription)
        ] + other.passedOver
      return rows.filter {
        reported.insert(ReportedRow(environment: other.row.evidence.key.environment, transactionID: $0.transactionID))
          .inserted
      }
    }
    return Entitlement(best, passedOver: others + best.passedOver + uncatalogued, catalog: catalog)
  }

  /// A row that the explanation has named. The two stores hand out transaction IDs independently.
  private struct ReportedRow: Hashable {
    let environment: StoreEnvironment
    let transactionID: TransactionID
  }

  /// The store of what was bought last; of two that were bought at once, the real one.
  private static func environment(of rows: [SubscriptionGroup.Row]) -> StoreEnvironment? {
    let newest = rows.map { $0.purchase.purchaseDate ?? .distantPast }.max()
    let environments = rows.filter { ($0.purchase.purchaseDate ?? .distantPast) == newest }
      .map(\.evidence.key.environment)
    return environments.contains(.production) ? .production : environments.first
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
    // Of the same tier and end, proof beats a provisional grant and a held state, then a real purchase one of the
    // sandbox; then the ID decides, so that order never does.
    if a.isProvisional != b.isProvisional { return a.isProvisional }
    if a.isStale != b.isStale { return a.isStale }
    let environments = (a.row.evidence.key.environment, b.row.evidence.key.environment)
    if environments.0 != environments.1 { return environments.0 == .sandbox }
    let ids = (a.row.purchase.transactionID.rawValue, b.row.purchase.transactionID.rawValue)
    if ids.0 != ids.1 { return ids.0 < ids.1 }
    // Only receipts that show the same purchase come here, each a grant of its own.
    let times = (a.row.evidence.evidenceTime, b.row.evidence.evidenceTime)
    if times.0 != times.1 { return times.0 < times.1 }
    if a.evaluatedAt != b.evaluatedAt { return a.evaluatedAt < b.evaluatedAt }
    let keys = (a.row.evidence.key.originalTransactionID, b.row.evidence.key.originalTransactionID)
    if keys.0 != keys.1 { return keys.0.rawValue < keys.1.rawValue }
    return String(describing: a) < String(describing: b)
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
      isProvisional: state.isProvisional,
      explanation: Explanation(
        line: state.line, decidedBy: purchase.transactionID,
        periodKnownBy: state.row.isByRenewalInfo ? .renewalInfo : nil, passedOver: passedOver, policy: state.policy,
        evaluatedAt: state.evaluatedAt))
  }
}
