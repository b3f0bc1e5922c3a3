import Access
import CountersignAPI
import Entitlements
import Ledger
import Validation

import struct FoundationEssentials.Date

/// The answer of `GET /api/subscriptions/plans`.
struct SubscriptionsAPIPlans: Encodable {
  /// A plan with what it allows.
  struct Plan: Encodable {
    var plan: SubscriptionsAPIPlan
    var features: [String: SubscriptionsAPIFeatures.Limit]

    enum CodingKeys: CodingKey { case features }

    func encode(to encoder: any Encoder) throws {
      try plan.encode(to: encoder)
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(features, forKey: .features)
    }
  }

  let success = true
  var plans: [Plan]
}

/// A tier of the catalog with its prices: in US dollars where the catalog has these, else in its first currency.
struct SubscriptionsAPIPlan: Encodable, Sendable {
  var code: String
  var name: String
  @Nullable var description: String?
  /// The price of the cheapest product by the month; zero for the tier that everybody has, `nil` where the catalog names none.
  @Nullable var monthlyPrice: Double?
  @Nullable var annualPrice: Double?

  init(_ plan: Plans.Plan, _ plans: Plans, _ catalog: Catalog) {
    code = plan.tier.rawValue
    name = plan.name ?? plan.tier.rawValue
    description = plan.description
    let terms = catalog.products.filter { $0.value.tier == plan.tier && $0.value.kind == .subscription }
      .compactMap { plans.terms[$0.key] }
    let currencies = Set(terms.flatMap(\.prices.keys))
    let currency = currencies.contains("USD") ? "USD" : currencies.min()
    let isFree = plan.tier == catalog.defaultTier
    func price(_ cycle: SubscriptionsAPISubscription.BillingCycle) -> Double? {
      let prices = terms.filter { $0.period.flatMap(SubscriptionsAPISubscription.BillingCycle.init) == cycle }
        .compactMap { terms in currency.flatMap { terms.prices[$0]?.milliunits } }
      return prices.min().map { Double($0) / 1000 } ?? (isFree ? 0 : nil)
    }
    monthlyPrice = price(.monthly)
    annualPrice = price(.annual)
  }

  /// A tier that the catalog no longer lists.
  init(unlisted tier: Tier) {
    code = tier.rawValue
    name = tier.rawValue
  }
}

/// The source of a user's tier, now or last.
struct SubscriptionsAPISubscription: Codable, Hashable, Sendable {
  enum Status: String, Codable, Sendable {
    /// Grace and retry included.
    case active
    case trialing
    case cancelled
    case expired
  }

  enum BillingCycle: String, Codable, Sendable {
    case monthly
    case annual

    /// - Returns: `nil` for a period that the interface has no word for.
    init?(_ period: BillingPeriod) {
      switch (period.count, period.unit) {
      case (1, .month): self = .monthly
      case (1, .year), (12, .month): self = .annual
      default: return nil
      }
    }
  }

  /// The original transaction ID; of what was given, the number of the grant.
  var id: String
  var status: Status
  @Nullable var billingCycle: BillingCycle?
  @Nullable var startDate: Date?
  @Nullable var currentPeriodEnd: Date?
  @Nullable var trialEndsAt: Date?
  /// `app_store`, or the store that RevenueCat reported, as `play_store`; `nil` where nothing was bought.
  @Nullable var externalProvider: String?

  /// - Returns: `nil` for a user without a purchase of the catalog's, or anything given.
  init?(_ entitlement: Entitlement, _ profile: LedgerProfile?, _ plans: Plans) {
    let given = entitlement.explanation.givenBy
    switch (given, entitlement.productID, entitlement.originalTransactionID) {
    case (let given?, _, _):
      id = String(given)
      startDate = profile?.given.first { $0.id == given }?.startsAt
    case (nil, .some, let original?):
      id = original.rawValue
      startDate = profile?.evidence.flatMap(\.purchases).filter { $0.originalTransactionID == original }
        .compactMap(\.purchaseDate).min()
      externalProvider = original.store ?? "app_store"
    default: return nil
    }
    status =
      switch entitlement.status {
      case .expired: .expired
      case .cancelled: .cancelled
      case .active, .gracePeriod: entitlement.isTrial ? .trialing : .active
      }
    billingCycle = entitlement.productID.flatMap { plans.terms[$0]?.period }.flatMap(BillingCycle.init)
    currentPeriodEnd = entitlement.expiresAt
    trialEndsAt = entitlement.isTrial ? entitlement.expiresAt : nil
  }
}

/// A user's subscription, plan and limits: the answer of `current`, `verify`, `restore`, `start-trial` and `cancel`.
struct SubscriptionsAPIAnswer: Encodable {
  let success = true
  var message: String?
  /// A member of `restore`.
  var restored: Bool?
  /// A member of `cancel`.
  var cancelled: Bool?
  var managementUrl: String?
  @Nullable var subscription: SubscriptionsAPISubscription?
  var plan: SubscriptionsAPIPlan
  var limits: [String: SubscriptionsAPIFeatures.Limit]
  /// A member of `current`.
  var usage: [String: Nullable<Int>]?
  var isTrialing: Bool
  @Nullable var trialDaysRemaining: Int?

  init(
    message: String?, subscription: SubscriptionsAPISubscription?, plan: SubscriptionsAPIPlan,
    limits: [String: SubscriptionsAPIFeatures.Limit], _ entitlement: Entitlement, at now: Date
  ) {
    self.message = message
    self.subscription = subscription
    self.plan = plan
    self.limits = limits
    isTrialing = entitlement.isTrial && entitlement.status != .expired
    trialDaysRemaining =
      isTrialing
      ? entitlement.expiresAt.map { Int((max(0, $0.timeIntervalSince(now)) / 86_400).rounded(.up)) } : nil
  }
}

/// The answer of `GET /api/subscriptions/limits`.
struct SubscriptionsAPILimits: Encodable {
  let success = true
  var limits: [String: SubscriptionsAPIFeatures.Limit]
}

/// The answer of `GET /api/subscriptions/check/{resource}`.
struct SubscriptionsAPICheck: Encodable {
  let success = true
  var resource: String
  var allowed: Bool
  var current: Int
  var limit: Int
}

/// The answer of `GET /api/subscriptions/feature/{feature}`.
struct SubscriptionsAPIFeature: Encodable {
  let success = true
  var feature: String
  var hasAccess: Bool
}

/// The body of `verify` and `restore`. What the app says of plan, cycle and end is not read: the purchase says it.
struct SubscriptionsAPIPurchase: Decodable {
  private var receiptData: String?
  private var externalId: String?

  private enum CodingKeys: String, CodingKey {
    case receiptData = "receipt_data"
    case receiptInCamelCase = "receiptData"
    case externalId
  }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    receiptData =
      try container.decodeIfPresent(String.self, forKey: .receiptData)
      ?? container.decodeIfPresent(String.self, forKey: .receiptInCamelCase)
    externalId = try container.decodeIfPresent(String.self, forKey: .externalId)
  }

  /// The proof in the body: the receipt, else an ID of Apple's. `nil`: there is neither.
  var proof: ReceiptSubmission.Proof? {
    if let receiptData { return .receipt(receiptData) }
    // Other services' IDs have other forms, and say nothing here.
    guard let externalId, (1...64).contains(externalId.utf8.count), externalId.utf8.allSatisfy(\.isDigit)
    else { return nil }
    return .originalTransactionID(OriginalTransactionID(externalId))
  }
}

/// The body of `start-trial`, which may be left out.
struct SubscriptionsAPITrialStart: Decodable {
  /// A name of `trials`; the first one where it is missing.
  var trial: String?
  var deviceId: String?
  var deviceToken: String?
  var secondDeviceToken: String?
  var development: Bool?
}
