package import struct FoundationEssentials.Date

/// What the app may show a user. `cancelled` is paid and running, with renewal turned off.
package enum SubscriptionStatus: String, Hashable, Codable, Sendable, CaseIterable {
  case active
  case cancelled
  case gracePeriod = "grace_period"
  case expired
}

/// Why a user has the tier they have.
package enum EntitlementReason: String, Hashable, Codable, Sendable, CaseIterable {
  case lifetime
  case renewing
  case renewalOff = "renewal_off"
  case refunded
  case revoked
  case billingGrace = "billing_grace"
  case billingRetry = "billing_retry"
  case voluntary
  case billingError = "billing_error"
  case priceIncrease = "price_increase"
  case productUnavailable = "product_unavailable"
  case unknown
  case noPurchases = "no_purchases"
  case noKnownProduct = "no_known_product"
  case accountGone = "account_gone"
  case unproven

  /// Apple's `expiration_intent`; a number that Apple adds tomorrow is `unknown`.
  ///
  /// https://developer.apple.com/documentation/appstorereceipts/expiration_intent
  package init(expirationIntent: Int?) {
    self =
      switch expirationIntent {
      case 1: .voluntary
      case 2: .billingError
      case 3: .priceIncrease
      case 4: .productUnavailable
      default: .unknown
      }
  }
}

/// The verdict on a user: tier, status, and how it was reached.
package struct Entitlement: Hashable, Codable, Sendable {
  package var tier: Tier
  package var status: SubscriptionStatus
  package var reason: EntitlementReason
  /// End of the paid period; the cancellation date where Apple took it back earlier.
  package var expiresAt: Date?
  /// When access ends as far as is known; `nil` for lifetime and where there is no access.
  package var accessUntil: Date?
  package var productID: ProductID?
  package var originalTransactionID: OriginalTransactionID?
  package var environment: StoreEnvironment?
  /// `nil` where Apple did not say.
  package var willRenew: Bool?
  /// The product of the next period, where Apple names another than the present one.
  package var nextProductID: ProductID?
  package var isTrial: Bool
  package var ownership: Purchase.Ownership?
  package var evidenceTime: Date?
  package var source: EvidenceSource?
  /// The last proven state; a newer one was due and is not at hand.
  package var isStale: Bool
  package var isProvisional: Bool
  package var explanation: Explanation

  /// A purchase gives the tier.
  package var givesAccess: Bool { productID != nil && status != .expired }

  /// A user with no purchase that counts.
  package static func none(tier: Tier, reason: EntitlementReason, explanation: Explanation) -> Entitlement {
    Entitlement(
      tier: tier, status: .active, reason: reason, expiresAt: nil, accessUntil: nil, productID: nil,
      originalTransactionID: nil, environment: nil, willRenew: nil, nextProductID: nil, isTrial: false,
      ownership: nil, evidenceTime: nil, source: nil, isStale: false, isProvisional: false,
      explanation: explanation)
  }
}

/// How a verdict was reached: what an auditor or a support agent needs to retrace it.
package struct Explanation: Hashable, Codable, Sendable {
  /// A row that did not decide, and why.
  package struct PassedOver: Hashable, Codable, Sendable {
    package enum Cause: String, Hashable, Codable, Sendable {
      case upgraded
      case cancelled
      case notCatalogued = "not_catalogued"
      case noExpiry = "no_expiry"
      case endsEarlier = "ends_earlier"
      case accountGone = "account_gone"
      /// Its subscription lost against one of a higher tier, or one that ends later.
      case otherSubscription = "other_subscription"
    }

    package var transactionID: TransactionID
    package var productID: ProductID
    package var cause: Cause

    package init(transactionID: TransactionID, productID: ProductID, cause: Cause) {
      self.transactionID = transactionID
      self.productID = productID
      self.cause = cause
    }
  }

  /// How a period is known of which Apple told no row.
  package enum PeriodSource: String, Hashable, Codable, Sendable {
    /// A renewal info names its end.
    case renewalInfo = "renewal_info"
  }

  /// A configured value that the verdict depends on.
  package struct PolicyValue: Hashable, Codable, Sendable {
    package var key: String
    package var value: String

    package init(key: String, value: String) {
      self.key = key
      self.value = value
    }
  }

  /// The line of the decision table, 1 to 7; `nil` for what the table does not cover (no purchases, account gone, unproven).
  package var line: Int?
  /// The row that decided; where `periodKnownBy` is set, the one before it, which is the newest that was told.
  package var decidedBy: TransactionID?
  /// How the period is known that decided; `nil` for one that was told by a row of its own.
  package var periodKnownBy: PeriodSource?
  /// At most `passedOverLimit` of them; `passedOverCount` has the true number.
  package var passedOver: [PassedOver]
  package var passedOverCount: Int
  package var policy: PolicyValue?
  /// The moment that was judged at.
  package var evaluatedAt: Date?

  /// The names in the ledger; one that differs is an older name of the property.
  private enum CodingKeys: String, CodingKey {
    case line, decidedBy, periodKnownBy, passedOver, passedOverCount, policy
    case evaluatedAt = "judgedAt"
  }

  /// Keeps a verdict over thousands of rows small.
  package static let passedOverLimit = 50

  package init(
    line: Int?, decidedBy: TransactionID?, periodKnownBy: PeriodSource? = nil, passedOver: [PassedOver],
    policy: PolicyValue? = nil, evaluatedAt: Date?
  ) {
    self.line = line
    self.decidedBy = decidedBy
    self.periodKnownBy = periodKnownBy
    self.passedOver = Array(passedOver.prefix(Self.passedOverLimit))
    self.passedOverCount = passedOver.count
    self.policy = policy
    self.evaluatedAt = evaluatedAt
  }
}
