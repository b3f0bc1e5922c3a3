/// The verdict on a user at the moment of the answer: the members that every form of it has.
///
/// Show access by `tier` and by nothing else: it is the default tier where nothing is paid for. `status` and `reason`
/// are for words to the user.
/// https://developer.apple.com/documentation/appstoreserverapi/get-all-subscription-statuses
public struct EntitlementState: Codable, Hashable, Sendable {
  /// The name of a tier of the service's catalog (`catalog.tiers`).
  public var tier: String
  public var status: Status
  /// Why the user has this tier.
  public var reason: Reason
  /// The end of the paid period, grant or trial, or the earlier end of access, such as a refund.
  @Nullable public var expiresAt: Date?
  /// When access ends as far as is known, grace and retry included; `nil` for lifetime access and where there is no
  /// access.
  @Nullable public var accessUntil: Date?
  /// The end of the customer's commitment, which may be paid by the month. With the reason `renewalOff` the customer wants no
  /// other one, and the payments go on until then.
  @Nullable public var commitmentExpiresAt: Date?
  /// The product that gives the tier; `nil` where none does.
  @Nullable public var productID: String?
  /// Apple's ID of the first transaction of the subscription, which all its renewals share.
  @Nullable public var originalTransactionID: String?
  @Nullable public var environment: Environment?
  /// Whether renewal is turned on; `nil` where Apple did not say.
  @Nullable public var willRenew: Bool?
  /// The product of the next period, where it is another one.
  @Nullable public var nextProductID: String?
  public var isTrial: Bool
  @Nullable public var ownership: Ownership?
  /// Apple's clock on the answer, or on the signature, that proves this.
  @Nullable public var evidenceAt: Date?
  /// The source of the evidence.
  @Nullable public var source: Source?
  /// Whether this is the last proven state, where a newer one was due and is not at hand.
  public var isStale: Bool
  /// Whether it counts on Apple's signature alone, until Apple is asked.
  public var isProvisional: Bool

  public init(
    tier: String, status: Status, reason: Reason, expiresAt: Date? = nil, accessUntil: Date? = nil,
    commitmentExpiresAt: Date? = nil, productID: String? = nil, originalTransactionID: String? = nil,
    environment: Environment? = nil,
    willRenew: Bool? = nil, nextProductID: String? = nil, isTrial: Bool, ownership: Ownership? = nil,
    evidenceAt: Date? = nil, source: Source? = nil, isStale: Bool, isProvisional: Bool
  ) {
    self.tier = tier
    self.status = status
    self.reason = reason
    self.expiresAt = expiresAt
    self.accessUntil = accessUntil
    self.commitmentExpiresAt = commitmentExpiresAt
    self.productID = productID
    self.originalTransactionID = originalTransactionID
    self.environment = environment
    self.willRenew = willRenew
    self.nextProductID = nextProductID
    self.isTrial = isTrial
    self.ownership = ownership
    self.evidenceAt = evidenceAt
    self.source = source
    self.isStale = isStale
    self.isProvisional = isProvisional
  }

  enum CodingKeys: String, CodingKey {
    case tier, status, reason
    case expiresAt = "expires_at"
    case accessUntil = "access_until"
    case commitmentExpiresAt = "commitment_expires_at"
    case productID = "product_id"
    case originalTransactionID = "original_transaction_id"
    case environment
    case willRenew = "will_renew"
    case nextProductID = "next_product_id"
    case isTrial = "is_trial"
    case ownership
    case evidenceAt = "evidence_at"
    case source
    case isStale = "stale"
    case isProvisional = "provisional"
  }
}

extension EntitlementState {
  /// The status to show to the user. `cancelled` is paid and running, with renewal turned off.
  public struct Status: OpenValue {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    public static let active: Self = "active"
    public static let cancelled: Self = "cancelled"
    public static let gracePeriod: Self = "grace_period"
    public static let expired: Self = "expired"
  }

  /// Why a user has the tier they have. For an expired subscription Apple's reason:
  /// https://developer.apple.com/documentation/appstorereceipts/expiration_intent
  public struct Reason: OpenValue {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    public static let lifetime: Self = "lifetime"
    public static let renewing: Self = "renewing"
    public static let renewalOff: Self = "renewal_off"
    public static let refunded: Self = "refunded"
    public static let revoked: Self = "revoked"
    public static let billingGrace: Self = "billing_grace"
    public static let billingRetry: Self = "billing_retry"
    public static let renewalDue: Self = "renewal_due"
    public static let nonRenewing: Self = "non_renewing"
    public static let periodOver: Self = "period_over"
    public static let voluntary: Self = "voluntary"
    public static let billingError: Self = "billing_error"
    public static let priceIncrease: Self = "price_increase"
    public static let productUnavailable: Self = "product_unavailable"
    public static let unknown: Self = "unknown"
    public static let noPurchases: Self = "no_purchases"
    public static let noKnownProduct: Self = "no_known_product"
    public static let accountGone: Self = "account_gone"
    public static let unproven: Self = "unproven"
    public static let granted: Self = "granted"
    public static let trial: Self = "trial"
    public static let originalPurchase: Self = "original_purchase"
  }

  /// The App Store in which a purchase was made.
  public struct Environment: OpenValue {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    public static let production: Self = "production"
    public static let sandbox: Self = "sandbox"
  }

  /// Whether the user paid, or shares the purchase of a family member.
  /// https://developer.apple.com/documentation/appstoreserverapi/inappownershiptype
  public struct Ownership: OpenValue {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    public static let purchased: Self = "purchased"
    public static let familyShared: Self = "family_shared"
    /// Neither, in a word of Apple's that the service does not know. It belongs to no user.
    public static let unknown: Self = "unknown"
  }

  /// The source of the evidence for a verdict.
  public struct Source: OpenValue {
    public let rawValue: String
    public init(rawValue: String) { self.rawValue = rawValue }

    /// A new answer of `verifyReceipt`.
    public static let verifyReceipt: Self = "verify_receipt"
    /// A new answer of the App Store Server API.
    public static let serverAPI: Self = "server_api"
    /// Apple's signature on the submitted data; Apple was not asked since.
    public static let signature: Self = "signature"
    /// A server notification of Apple's.
    public static let notification: Self = "notification"
    /// An event of RevenueCat's: the service cannot ask the store, or Apple was unavailable.
    public static let revenuecat: Self = "revenuecat"
    /// A grant of the service's.
    public static let grant: Self = "grant"
    /// A trial of the app's own.
    public static let trial: Self = "trial"
    /// The verdict was read from the ledger.
    public static let ledger: Self = "ledger"
  }
}
