import Access
import CountersignAPI
import Entitlements
import Ledger
import Validation

import struct FoundationEssentials.Date

/// A user's purchases and access, as OpenIAP's `kitApi` reads them.
struct OpenIAPUserState {
  /// Whether the user has a tier above the lowest, if only by a grant, which no product stands behind.
  var isActive: Bool
  /// The purchases that give access, the best first.
  var running: [OpenIAPSubscription]
  /// The purchase that ended last, of a user for whom none runs.
  var ended: OpenIAPSubscription?

  /// - Throws: a problem where the ledger is away.
  init(of user: UserID, _ common: DialectParts, _ context: ServiceRequestContext) async throws(Problem) {
    let owner = try await context.reading(await common.useCases.ledger.user(named: user))
    let profile = try await context.reading(await common.useCases.ledger.profile(of: owner))
    let (rules, now, evidence) = (common.useCases.reader.rules, common.now(), profile?.evidence ?? [])
    let verdict = rules.standing(of: owner, profile, at: now)
    var verdicts = rules.running(owner, evidence, at: now)
    // A verdict may hold what no purchase gives by today's rules.
    if verdict.givesAccess, !verdicts.contains(where: { $0.isOnSamePurchase(as: verdict) }) {
      verdicts.insert(verdict, at: 0)
    }
    isActive = rules.catalog.rank(of: verdict.tier) > 0
    running = verdicts.compactMap { OpenIAPSubscription($0, evidence, of: user, rules, at: now) }
    ended = verdict.givesAccess ? nil : OpenIAPSubscription(verdict, evidence, of: user, rules, at: now)
  }
}

extension Entitlement {
  fileprivate func isOnSamePurchase(as other: Entitlement) -> Bool {
    originalTransactionID == other.originalTransactionID && environment == other.environment
  }
}

/// `GET /v1/subscriptions/status/…`
struct OpenIAPStatus: Encodable {
  var active: Bool
  @Nullable var subscription: OpenIAPSubscription?
}

/// `GET /v1/subscriptions/entitlements/…`
struct OpenIAPEntitlements: Encodable {
  var userId: String
  var productIds: [String]
  var subscriptions: [OpenIAPSubscription]
}

/// One purchase (`KitSubscription`), also one for life. Dates are milliseconds since 1970.
struct OpenIAPSubscription: Codable, Hashable, Sendable {
  enum State: String, Codable, Sendable {
    case active = "Active"
    case inGracePeriod = "InGracePeriod"
    case expired = "Expired"
    case revoked = "Revoked"
    case refunded = "Refunded"
  }

  /// The original transaction ID.
  var id: String
  var productId: String
  var platform: String
  var state: State
  /// The end of access; absent for life.
  var expiresAt: Int64?
  var renewsAt: Int64?
  var willRenew: Bool?
  var currency: String?
  /// In millionths of the currency's unit.
  var priceAmountMicros: Int64?
  var startedAt: Int64
  var updatedAt: Int64
  /// The original transaction ID: signed transactions change with each renewal.
  var purchaseToken: String
  var userId: String

  /// - Parameters:
  ///   - verdict: on one purchase.
  ///   - evidence: all of the user's.
  /// - Returns: `nil` where no purchase is behind the verdict, or one at a store that the client has no word for.
  init?(
    _ verdict: Entitlement, _ evidence: [SubscriptionEvidence], of user: UserID, _ rules: EntitlementRules, at now: Date
  ) {
    guard let product = verdict.productID, let original = verdict.originalTransactionID,
      let own = evidence.first(where: {
        $0.key.originalTransactionID == original && $0.key.environment == verdict.environment
      }) ?? evidence.first(where: { $0.purchases.contains { $0.originalTransactionID == original } })
    else { return nil }
    switch original.store {
    case nil: platform = "IOS"
    case "play_store": platform = "Android"
    default: return nil
    }
    id = original.rawValue
    purchaseToken = original.rawValue
    productId = product.rawValue
    userId = user.rawValue
    state = State(verdict)
    expiresAt = (verdict.givesAccess ? rules.accessEnd(of: verdict, at: now) : verdict.expiresAt)?.millisecondsSince1970
    willRenew = verdict.willRenew
    if verdict.givesAccess, verdict.willRenew == true { renewsAt = expiresAt }
    let sale = own.purchases.first { $0.transactionID == verdict.explanation.decidedBy }?.sale
    if let price = sale?.price, let currency = sale?.currency {
      self.currency = currency
      priceAmountMicros = price.multipliedReportingOverflow(by: 1000).partialValue
    }
    startedAt = (own.purchases.compactMap(\.purchaseDate).min() ?? own.evidenceTime).millisecondsSince1970
    updatedAt = own.evidenceTime.millisecondsSince1970
  }
}

extension OpenIAPSubscription.State {
  fileprivate init(_ verdict: Entitlement) {
    if verdict.givesAccess {
      self = verdict.status == .gracePeriod ? .inGracePeriod : .active
    } else {
      switch verdict.reason {
      case .refunded: self = .refunded
      case .revoked, .accountGone: self = .revoked
      default: self = .expired
      }
    }
  }
}

/// `GET /v1/products/…`: the products of the catalog.
struct OpenIAPProducts: Encodable {
  struct Product: Encodable {
    var productId: String
    let platform = "IOS"
    var type: String
    var title: String
    let state = "Active"
    var currency: String?
    var priceAmountMicros: Int64?
    var billingPeriod: String?
    /// The time at which the configuration was read.
    var updatedAt: Int64

    fileprivate static func typeName(of kind: ProductKind) -> String {
      switch kind {
      case .subscription: "Subscription"
      case .lifetime: "NonConsumable"
      // Customers buy both again and again.
      case .consumable, .nonRenewing: "Consumable"
      }
    }
  }

  var products: [Product]
  let hasMore = false

  static let none = OpenIAPProducts(products: [])

  private init(products: [Product]) { self.products = products }

  init(_ catalog: Catalog, _ plans: Plans, at now: Date) {
    products = catalog.products.filter { plans.terms[$0.key]?.isActive ?? true }
      .sorted { $0.key.rawValue < $1.key.rawValue }.map { id, product in
        let price = plans.terms[id]?.price()
        return Product(
          productId: id.rawValue,
          type: Product.typeName(of: product.kind),
          title: plans.title(of: id, product), currency: price?.currency, priceAmountMicros: price?.micros,
          billingPeriod: plans.terms[id]?.period?.text, updatedAt: now.millisecondsSince1970)
      }
  }
}

/// The state of one purchase as OpenIAP reads it (`RequestVerifyPurchaseWithIapkitResult`).
struct OpenIAPAnswer: Encodable, Hashable {
  /// `PENDING_ACKNOWLEDGMENT` is Google's; `CONSUMED` only the app knows.
  enum State: String, Encodable {
    case entitled = "ENTITLED"
    case readyToConsume = "READY_TO_CONSUME"
    case canceled = "CANCELED"
    case expired = "EXPIRED"
    case unknown = "UNKNOWN"
    case inauthentic = "INAUTHENTIC"
  }

  var isValid: Bool
  var state: State
  let store = "apple"
  /// The product that the purchase is of now: a subscription may have been changed to another since.
  var productId: String?
  var environment: String?

  init(state: State, productID: ProductID? = nil, environment: StoreEnvironment? = nil) {
    isValid = state == .entitled || state == .readyToConsume
    self.state = state
    productId = productID?.rawValue
    self.environment = environment.map { $0 == .production ? "Production" : "Sandbox" }
  }

  /// - Parameters:
  ///   - transaction: as it was posted.
  ///   - evidence: what is known of its purchase.
  ///   - verdict: on that purchase.
  ///   - kind: of its product; `nil` for one that the catalog does not have.
  init(
    _ transaction: Purchase, _ evidence: SubscriptionEvidence, _ verdict: Entitlement, kind: ProductKind?, at now: Date
  ) {
    let environment = evidence.key.environment
    if let product = verdict.productID {
      self.init(state: State(verdict), productID: product, environment: environment)
      return
    }
    // No tier hangs on it. It is genuine all the same, and the catalog may be wrong.
    let row = evidence.purchases.first { $0.transactionID == transaction.transactionID } ?? transaction
    let state: State =
      if evidence.isAccountGone || row.cancellationDate != nil {
        .canceled
      } else if let end = row.expiresDate {
        now < end ? .entitled : .expired
      } else {
        kind == .consumable ? .readyToConsume : .entitled
      }
    self.init(state: state, productID: row.productID, environment: environment)
  }
}

extension OpenIAPAnswer.State {
  fileprivate init(_ verdict: Entitlement) {
    if verdict.givesAccess {
      self = .entitled
    } else {
      switch verdict.reason {
      case .refunded, .revoked, .accountGone: self = .canceled
      default: self = .expired
      }
    }
  }
}

/// A failed call.
struct OpenIAPFailure: Encodable {
  struct Reason: Encodable {
    var code: String
    var message: String
    /// The path of the wrong member; always empty here.
    var path: [String] = []
  }

  var errors: [Reason]

  init(code: String, message: String) { errors = [Reason(code: code, message: message)] }
}
