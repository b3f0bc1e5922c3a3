import Entitlements
import FoundationEssentials
import Ledger
import Validation

extension CustomerInfo {
  /// - Parameters:
  ///   - profile: `nil` for a customer of whom nothing is recorded.
  ///   - now: the service's time, by which an SDK judges what is active.
  init(
    _ customer: Customer, _ profile: LedgerProfile?, _ troubles: [SubscriptionKey: PurchaseTroubles],
    rules: EntitlementRules, at now: Date
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
          troubles[evidence.key], rules)
      }
    }
    let verdict = rules.standing(of: customer.user, profile, at: now)
    var subscriber = Subscriber(
      originalAppUserID: customer.originalID.rawValue, firstSeen: customer.firstSeenAt, lastSeen: customer.lastSeenAt)
    let app = Self.app(in: known)
    subscriber.originalApplicationVersion = app?.appVersion
    subscriber.originalPurchaseDate = app?.purchaseDate
    for (product, rows) in Dictionary(grouping: rows, by: \.purchase.productID) {
      if let newest = rows.filter({ !$0.isForEver }).max(by: Row.isOlder) {
        subscriber.subscriptions[product.rawValue] = newest.subscription(
          firstBoughtAt: rows.map(\.boughtAt).min() ?? newest.boughtAt)
      }
      let forEver = rows.filter(\.isForEver).sorted(by: Row.isOlder)
      if !forEver.isEmpty { subscriber.nonSubscriptions[product.rawValue] = forEver.map(\.nonSubscription) }
    }
    // The page of the deciding purchase's store, else of one where the customer has bought.
    let stores = Set(subscriber.subscriptions.values.map(\.store)).sorted()
    let deciding = verdict.originalTransactionID.map { $0.store ?? "app_store" }
    subscriber.managementURL =
      (deciding.map { stores.contains($0) ? [$0] : stores } ?? stores)
      .compactMap(DialectRoutes.managementURL).first
    subscriber.entitlements = Self.former(rows, verdict, rules.catalog, at: now)
    subscriber.add(verdict, rows, given: profile?.given ?? [], rules, at: now)
    self.init(requestDate: now, requestDateMilliseconds: now.millisecondsSince1970, subscriber: subscriber)
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

  /// The tiers that purchases once gave, each until the moment at which it ended. The verdict's own tier alone is active,
  /// so any other ended when the verdict's began, if not before.
  private static func former(
    _ rows: [Row], _ verdict: Entitlements.Entitlement, _ catalog: Catalog, at now: Date
  ) -> [String: Entitlement] {
    let justNow = now.advanced(by: .seconds(-1))
    let tiers = Dictionary(grouping: rows.filter { $0.product?.kind != .consumable }) { row in
      row.product.map { catalog.current($0.tier) }
    }
    var former: [String: Entitlement] = [:]
    for (tier, rows) in tiers {
      guard let tier, catalog.rank(of: tier) > 0, let last = rows.max(by: Row.isOlder) else { continue }
      former[tier.rawValue] = Entitlement(
        productIdentifier: last.purchase.productID.rawValue, purchaseDate: last.boughtAt,
        expiresDate: min(last.end ?? justNow, justNow))
    }
    return former
  }
}

extension CustomerInfo.Subscriber {
  /// The tier that the customer has now.
  fileprivate mutating func add(
    _ verdict: Entitlement, _ rows: [CustomerInfo.Row], given: [GivenPeriod], _ rules: EntitlementRules, at now: Date
  ) {
    guard rules.catalog.rank(of: verdict.tier) > 0 else { return }
    let expiresDate = rules.accessEnd(of: verdict, at: now)
    if let product = verdict.productID {
      let own = rows.filter { $0.purchase.productID == product }
      let deciding =
        own.first { $0.purchase.transactionID == verdict.explanation.decidedBy }
        ?? own.max(by: CustomerInfo.Row.isOlder)
      entitlements[verdict.tier.rawValue] = CustomerInfo.Entitlement(
        productIdentifier: product.rawValue, purchaseDate: deciding?.boughtAt ?? verdict.evidenceTime ?? now,
        expiresDate: expiresDate, gracePeriodExpiresDate: deciding?.graceUntil)
    } else if let period = given.first(where: { $0.id == verdict.explanation.givenBy }) {
      // An SDK drops an entitlement whose product is not listed, so what was given is listed as a product.
      let product = "rc_promo_\(verdict.tier.rawValue)_custom"
      entitlements[verdict.tier.rawValue] = CustomerInfo.Entitlement(
        productIdentifier: product, purchaseDate: period.startsAt, expiresDate: expiresDate)
      subscriptions[product] = CustomerInfo.Subscription(
        purchaseDate: period.startsAt, originalPurchaseDate: period.startsAt, expiresDate: period.endsAt,
        store: "promotional", isSandbox: false, periodType: period.kind == .trial ? "trial" : "normal",
        ownershipType: "PURCHASED")
    }
  }
}

extension CustomerInfo {
  /// A purchase, or a renewal of one, with what is known around it.
  fileprivate struct Row {
    var purchase: Purchase
    var product: Catalog.Product?
    var boughtAt: Date
    /// When it ended or will end; `nil` for a purchase for life that stands.
    var end: Date?
    var store: String
    var isSandbox: Bool
    var graceUntil: Date?
    var renewalOffAt: Date?
    var billingFailedAt: Date?

    init(
      _ reading: SubscriptionEvidence.Reading, of evidence: SubscriptionEvidence, renewal: RenewalInfo?,
      _ troubles: PurchaseTroubles?, _ rules: EntitlementRules
    ) {
      purchase = reading.purchase
      product = rules.catalog.product(of: purchase, in: evidence)
      store = evidence.key.originalTransactionID.store ?? "app_store"
      boughtAt = purchase.purchaseDate ?? evidence.evidenceTime
      let expires = product?.kind == .lifetime ? nil : purchase.expiresDate
      end = [expires, purchase.cancellationDate].compactMap(\.self).min()
      isSandbox = evidence.key.environment == .sandbox
      guard let renewal, purchase.cancellationDate == nil else { return }
      graceUntil = renewal.gracePeriodExpiresDate
      if graceUntil == nil, renewal.isInBillingRetry == true, rules.policy.billingRetryAccess > .zero {
        graceUntil = purchase.expiresDate?.advanced(by: rules.policy.billingRetryAccess)
      }
      if renewal.autoRenews == false { renewalOffAt = troubles?.renewalOffAt ?? evidence.evidenceTime }
      if renewal.isInBillingRetry == true { billingFailedAt = troubles?.billingFailedAt ?? evidence.evidenceTime }
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
        purchaseDate: boughtAt, originalPurchaseDate: firstBoughtAt, expiresDate: end, store: store,
        isSandbox: isSandbox,
        periodType: purchase.isTrial ? "trial" : purchase.isIntroductoryOffer ? "intro" : "normal",
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
