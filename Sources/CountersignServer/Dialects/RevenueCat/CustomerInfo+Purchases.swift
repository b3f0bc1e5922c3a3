import Access
import Entitlements
import FoundationEssentials
import Ledger
import Validation

extension CustomerInfo {
  /// - Parameters:
  ///   - profile: `nil` for a customer of whom nothing is recorded.
  ///   - scope: which tiers are entitlements.
  ///   - now: the service's time, by which an SDK judges what is active.
  init(
    _ customer: Customer, _ profile: LedgerProfile?, _ troubles: [SubscriptionKey: PurchaseTroubles],
    rules: EntitlementRules, scope: Plans.EntitlementScope, at now: Date
  ) {
    let known = (profile?.evidence ?? []).filter { rules.accepts($0.key.environment, for: customer.user) }
    // The app itself is listed where it gives a tier: an SDK drops an entitlement whose product is not listed.
    let evidence = known.filter { !$0.key.isOfApp || rules.isCatalogued($0) }
    let rows = evidence.flatMap { evidence in
      let readings = evidence.readings()
      // Renewal and billing are shown of the last period alone: of the ones before, the product may be another.
      let last = readings.map(\.purchase).filter { $0.cancellationDate == nil && !$0.isUpgraded }
        .compactMap(\.expiresDate).max()
      return readings.map { reading in
        Row(
          reading, of: evidence, renewal: reading.purchase.expiresDate == last ? evidence.renewal(of: reading) : nil,
          endedAt: Self.end(of: reading.purchase, in: evidence), troubles[evidence.key], rules)
      }
    }
    let verdict = rules.standing(of: customer.user, profile, at: now)
    var subscriber = Subscriber(
      originalAppUserID: customer.originalID.rawValue, firstSeen: customer.firstSeenAt, lastSeen: customer.lastSeenAt)
    let app = Self.app(in: known)
    subscriber.originalApplicationVersion = app?.appVersion
    subscriber.originalPurchaseDate = app?.purchaseDate
    for (product, rows) in Dictionary(grouping: rows, by: \.productID) {
      let periods = rows.filter { !$0.isForEver }
      // A product has one entry for all base plans and stores: the newest purchase of those that run, else of all.
      let live = periods.filter { $0.end.map { now < $0 } ?? true }
      let last = (live.isEmpty ? periods : live).max { $0.boughtAt < $1.boughtAt }
      if let newest = periods.filter({ $0.planID == last?.planID && $0.store == last?.store }).max(by: Row.isOlder) {
        subscriber.subscriptions[product] = newest.subscription(
          firstBoughtAt: rows.map(\.boughtAt).min() ?? newest.boughtAt)
      }
      let forEver = rows.filter(\.isForEver).sorted(by: Row.isOlder)
      if !forEver.isEmpty { subscriber.nonSubscriptions[product] = forEver.map(\.nonSubscription) }
    }
    // The page of the deciding purchase's store, else of one where the customer has bought.
    let stores = Set(subscriber.subscriptions.values.map(\.store)).sorted()
    let deciding = verdict.originalTransactionID.map { $0.store ?? "app_store" }
    subscriber.managementURL =
      (deciding.map { stores.contains($0) ? [$0] : stores } ?? stores)
      .compactMap(DialectParts.managementURL).first
    subscriber.entitlements = Self.former(rows, rules.catalog, scope, at: now)
    let running = rules.running(customer.user, evidence, at: now)
    subscriber.add(verdict, running, rows, given: profile?.given ?? [], scope, rules, at: now)
    self.init(requestDate: now, requestDateMilliseconds: now.millisecondsSince1970, subscriber: subscriber)
  }

  /// The end of a purchase by an upgrade, or with the customer's account.
  private static func end(of purchase: Purchase, in evidence: SubscriptionEvidence) -> Date? {
    if evidence.isAccountGone { return evidence.evaluatedAt }
    return purchase.isUpgraded ? evidence.upgradeDate(of: purchase) : nil
  }

  /// The purchase of the app itself: of several Apple accounts the earliest; the sandbox's, which is made up, where there
  /// is no other.
  private static func app(in evidence: [SubscriptionEvidence]) -> Purchase? {
    let apps = evidence.filter(\.key.isOfApp)
    let real = apps.filter { $0.key.environment == .production }
    return (real.isEmpty ? apps : real).flatMap(\.purchases).min { one, other in
      let dates = (one.purchaseDate ?? .distantFuture, other.purchaseDate ?? .distantFuture)
      return dates.0 == dates.1 ? one.transactionID.rawValue < other.transactionID.rawValue : dates.0 < dates.1
    }
  }

  /// The tiers that subscriptions once gave, each until the moment at which it ended; those that are had now take their
  /// place.
  ///
  /// A purchase without an end leaves none behind: the SDK for the web takes an entitlement for active, whatever its date,
  /// where its product is in `non_subscriptions` alone.
  private static func former(
    _ rows: [Row], _ catalog: Catalog, _ scope: Plans.EntitlementScope, at now: Date
  ) -> [String: Entitlement] {
    let justNow = now.advanced(by: .seconds(-1))
    let tiers = Dictionary(grouping: rows.filter { !$0.isForEver && $0.product?.kind != .consumable }) { row in
      row.product.map { catalog.current($0.tier) }
    }
    var former: [String: Entitlement] = [:]
    for (tier, rows) in tiers {
      guard let tier, catalog.rank(of: tier) > 0, let last = rows.max(by: Row.isOlder) else { continue }
      former[tier.rawValue] = Entitlement(
        productIdentifier: last.productID, productPlanIdentifier: last.planID, purchaseDate: last.boughtAt,
        expiresDate: min(last.end ?? justNow, justNow))
    }
    guard scope == .cumulative else { return former }
    // A tier gave those below it as well: each is named by the last of its own and the higher ones.
    var last: Entitlement?
    for tier in catalog.tiers.dropFirst().reversed() {
      let own = former[tier.rawValue]
      if let end = own?.expiresDate, (last?.expiresDate ?? .distantPast) <= end { last = own }
      former[tier.rawValue] = last
    }
    return former
  }
}

extension CustomerInfo.Subscriber {
  /// The tiers that the customer has now: each named by what gives it, else by what decides the verdict.
  ///
  /// - Parameters:
  ///   - running: the verdicts on the purchases that give access, the best first.
  ///   - given: periods that were given, running or not.
  fileprivate mutating func add(
    _ verdict: Entitlement, _ running: [Entitlement], _ rows: [CustomerInfo.Row], given: [GivenPeriod],
    _ scope: Plans.EntitlementScope, _ rules: EntitlementRules, at now: Date
  ) {
    let catalog = rules.catalog
    guard catalog.rank(of: verdict.tier) > 0 else { return }
    let end = rules.accessEnd(of: verdict, at: now)
    let deciding: CustomerInfo.Entitlement
    if let product = verdict.productID {
      deciding = entitlement(by: verdict, of: product, until: end, rows, at: now)
    } else if let period = given.first(where: { $0.id == verdict.explanation.givenBy }) {
      deciding = entitlement(by: period, until: end)
    } else {
      return
    }
    var own = [verdict.tier: deciding]
    for verdict in running where own[verdict.tier] == nil {
      guard let product = verdict.productID else { continue }
      own[verdict.tier] = entitlement(
        by: verdict, of: product, until: rules.accessEnd(of: verdict, at: now), rows, at: now)
    }
    switch scope {
    case .cumulative:
      // Every source of a tier gives the tiers below it as well, so that a lower one lasts as long as any above.
      var last = deciding.expiresDate
      // A tier that the catalog does not list has a rank above all, and gives no other.
      for tier in catalog.tiers.dropFirst().reversed()
      where catalog.lists(verdict.tier) && catalog.rank(of: tier) <= catalog.rank(of: verdict.tier) {
        var entitlement = own[tier] ?? deciding
        if let end = last { last = entitlement.expiresDate.map { max($0, end) } }
        entitlement.expiresDate = last
        own[tier] = entitlement
      }
    case .exact:
      for period in given.sorted(by: { $0.endsAt > $1.endsAt }) where period.isRunning(at: now) {
        let tier = catalog.current(period.tier)
        if catalog.rank(of: tier) > 0, own[tier] == nil { own[tier] = entitlement(by: period, until: period.endsAt) }
      }
    }
    for (tier, entitlement) in own { entitlements[tier.rawValue] = entitlement }
  }

  private func entitlement(
    by verdict: Entitlement, of product: ProductID, until end: Date?, _ rows: [CustomerInfo.Row], at now: Date
  ) -> CustomerInfo.Entitlement {
    let own = rows.filter { $0.purchase.productID == product }
    let deciding =
      own.first { $0.purchase.transactionID == verdict.explanation.decidedBy } ?? own.max(by: CustomerInfo.Row.isOlder)
    return CustomerInfo.Entitlement(
      productIdentifier: deciding?.productID ?? product.rawValue, productPlanIdentifier: deciding?.planID,
      purchaseDate: deciding?.boughtAt ?? verdict.evidenceTime ?? now, expiresDate: end,
      gracePeriodExpiresDate: deciding?.graceUntil)
  }

  /// An SDK drops an entitlement whose product is not listed, so what was given is listed as a product.
  private mutating func entitlement(by period: GivenPeriod, until end: Date?) -> CustomerInfo.Entitlement {
    let product = "rc_promo_\(period.tier.rawValue)_custom"
    subscriptions[product] = CustomerInfo.Subscription(
      purchaseDate: period.startsAt, originalPurchaseDate: period.startsAt, expiresDate: period.endsAt,
      store: "promotional", isSandbox: false, periodType: period.kind == .trial ? "trial" : "normal",
      ownershipType: "PURCHASED")
    return CustomerInfo.Entitlement(productIdentifier: product, purchaseDate: period.startsAt, expiresDate: end)
  }
}

extension CustomerInfo {
  /// A purchase, or a renewal of one, with what is known around it.
  fileprivate struct Row {
    var purchase: Purchase
    /// The ID at the store, without the base plan that RevenueCat writes behind the `:` of one of Google Play's.
    var productID: String
    var planID: String?
    var product: Catalog.Product?
    var boughtAt: Date
    /// The end, past or future; `nil` for a purchase for life that stands. An upgrade ended the purchase before it.
    var end: Date?
    var store: String
    var isSandbox: Bool
    var graceUntil: Date?
    var renewalOffAt: Date?
    var billingFailedAt: Date?

    init(
      _ reading: SubscriptionEvidence.Reading, of evidence: SubscriptionEvidence, renewal: RenewalInfo?,
      endedAt: Date?, _ troubles: PurchaseTroubles?, _ rules: EntitlementRules
    ) {
      purchase = reading.purchase
      product = rules.catalog.product(of: purchase, in: evidence)
      store = evidence.key.originalTransactionID.store ?? "app_store"
      let id = purchase.productID.rawValue
      let colon = store == "play_store" ? id.firstIndex(of: ":") : nil
      productID = String(id[..<(colon ?? id.endIndex)])
      planID = colon.map { String(id[id.index(after: $0)...]) }
      boughtAt = purchase.purchaseDate ?? evidence.evidenceTime
      let expires = product?.kind == .lifetime ? nil : purchase.expiresDate
      end = [expires, purchase.cancellationDate, endedAt].compactMap(\.self).min()
      isSandbox = evidence.key.environment == .sandbox
      guard let renewal, purchase.cancellationDate == nil else { return }
      graceUntil = renewal.gracePeriodExpiresDate
      if renewal.autoRenews == false, !purchase.isPrepaid {
        renewalOffAt = troubles?.renewalOffAt ?? evidence.evidenceTime
      }
      // A status from before the end is of an earlier period; the customer's own end (intent 1) stands above it.
      let isOver = purchase.expiresDate.map { $0 <= evidence.evidenceTime } ?? false
      let status = isOver && renewal.expirationIntent != 1 ? renewal.status : nil
      if renewal.isInBillingRetry == true {
        billingFailedAt = troubles?.billingFailedAt ?? evidence.evidenceTime
      } else if status == .billingGracePeriod || status == .billingRetry {
        billingFailedAt = purchase.expiresDate
      }
      guard graceUntil == nil, billingFailedAt != nil, let end = purchase.expiresDate else { return }
      if let grace = evidence.knownGrace?.granted(after: end) {
        graceUntil = grace.lastEnd(after: end)
      } else if rules.policy.billingRetryAccess > .zero {
        graceUntil = end.advanced(by: rules.policy.billingRetryAccess)
      }
    }

    /// Whether it is listed under `non_subscriptions`.
    var isForEver: Bool { purchase.expiresDate == nil || product?.kind == .lifetime }

    static func isOlder(_ one: Row, _ other: Row) -> Bool {
      let ends = (one.purchase.expiresDate ?? .distantFuture, other.purchase.expiresDate ?? .distantFuture)
      if ends.0 != ends.1 { return ends.0 < ends.1 }
      if one.boughtAt != other.boughtAt { return one.boughtAt < other.boughtAt }
      return one.purchase.transactionID.rawValue < other.purchase.transactionID.rawValue
    }

    func subscription(firstBoughtAt: Date) -> CustomerInfo.Subscription {
      CustomerInfo.Subscription(
        productPlanIdentifier: planID, purchaseDate: boughtAt, originalPurchaseDate: firstBoughtAt, expiresDate: end,
        store: store, isSandbox: isSandbox,
        periodType: purchase.isTrial
          ? "trial" : purchase.isIntroductoryOffer ? "intro" : purchase.isPrepaid ? "prepaid" : "normal",
        ownershipType: purchase.ownership == .familyShared ? "FAMILY_SHARED" : "PURCHASED",
        unsubscribeDetectedAt: renewalOffAt, billingIssuesDetectedAt: billingFailedAt,
        gracePeriodExpiresDate: graceUntil, refundedAt: purchase.cancellationDate,
        storeTransactionID: purchase.transactionID.rawValue, price: CustomerInfo.Price(purchase.sale))
    }

    var nonSubscription: CustomerInfo.NonSubscription {
      CustomerInfo.NonSubscription(
        id: purchase.transactionID.rawValue, storeTransactionID: purchase.transactionID.rawValue,
        purchaseDate: boughtAt, originalPurchaseDate: boughtAt, store: store, isSandbox: isSandbox,
        price: CustomerInfo.Price(purchase.sale))
    }
  }
}
