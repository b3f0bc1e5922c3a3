package import struct FoundationEssentials.Date

/// The status that the app may show a user. `cancelled` is paid and running, with renewal turned off.
package enum SubscriptionStatus: String, Hashable, Codable, Sendable, CaseIterable {
  case active, cancelled
  case gracePeriod = "grace_period"
  case expired
}

package enum EntitlementReason: String, Hashable, Codable, Sendable, CaseIterable {
  case lifetime, renewing
  case renewalOff = "renewal_off"
  case refunded, revoked
  case billingGrace = "billing_grace"
  case billingRetry = "billing_retry"
  /// The period is over, and Apple shows neither a renewal nor an end.
  case renewalDue = "renewal_due"
  /// A non-renewing subscription, within its period.
  case nonRenewing = "non_renewing"
  /// A non-renewing subscription, after its period.
  case periodOver = "period_over"
  case voluntary
  case billingError = "billing_error"
  case priceIncrease = "price_increase"
  case productUnavailable = "product_unavailable"
  case unknown
  case noPurchases = "no_purchases"
  case noKnownProduct = "no_known_product"
  case accountGone = "account_gone"
  case unproven
  /// The tier was given: by support, a promotion, a migration.
  case granted
  /// A trial of the app's own, not one of the App Store's.
  case trial
  /// The customer had the app itself early enough: see `OriginalPurchaseRule`.
  case originalPurchase = "original_purchase"

  /// The reason for Apple's `expiration_intent`; a number unknown to this version is `unknown`.
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
  /// The end of the paid period, or the earlier end of access, such as a refund. Without access it is past.
  package var expiresAt: Date?
  /// When access ends as far as known; `nil` for lifetime and without access.
  package var accessUntil: Date?
  package var productID: ProductID?
  package var originalTransactionID: OriginalTransactionID?
  package var environment: StoreEnvironment?
  /// `nil` if Apple did not say.
  package var willRenew: Bool?
  /// The end of the customer's commitment, which may be paid by the month; `nil` without one, and without access.
  package var commitmentExpiresAt: Date?
  /// Whether another commitment follows; `nil` if Apple did not say.
  package var commitmentRenews: Bool?
  /// The product of the next period, if Apple names a different one.
  package var nextProductID: ProductID?
  package var isTrial: Bool
  package var ownership: Purchase.Ownership?
  package var evidenceTime: Date?
  package var source: EvidenceSource?
  /// The last proven state; newer evidence was due and is missing.
  package var isStale: Bool
  package var isProvisional: Bool
  package var explanation: Explanation

  /// Whether Apple names no end of the purchase, and the catalog calls it a subscription.
  package var lacksEnd: Bool { reason == .unknown && expiresAt == nil && productID != nil }

  /// Whether the customer asked for an end: of the renewal, or of a commitment that is paid by the month until then.
  package var isRenewalOff: Bool { status == .cancelled || commitmentRenews == false }

  /// Whether a purchase gives the tier.
  package var givesAccess: Bool { productID != nil && status != .expired }

  /// The verdict on a user without a purchase that counts.
  package static func none(tier: Tier, reason: EntitlementReason, explanation: Explanation) -> Entitlement {
    Entitlement(
      tier: tier, status: .active, reason: reason, isTrial: false, isStale: false, isProvisional: false,
      explanation: explanation)
  }
}

/// How a verdict was reached, for an auditor or a support agent to retrace.
package struct Explanation: Hashable, Codable, Sendable {
  /// A row that did not decide, and why.
  package struct PassedOver: Hashable, Codable, Sendable {
    /// Why a row did not decide.
    package enum Cause: String, Hashable, Codable, Sendable, CaseIterable {
      case upgraded, cancelled
      case notCatalogued = "not_catalogued"
      case noExpiry = "no_expiry"
      case endsEarlier = "ends_earlier"
      case accountGone = "account_gone"
      /// Its subscription ranked below one of a higher tier, or one that ends later.
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

  /// How a period without a row from Apple is known.
  package enum PeriodSource: String, Hashable, Codable, Sendable {
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

  /// The deciding row; if `periodKnownBy` is set, the row before that period, which is the newest reported.
  package var decidedBy: TransactionID?
  /// The deciding period, if it was given and not bought.
  package var givenBy: GivenPeriod.ID?
  /// How the deciding period is known; `nil` for one with a row of its own.
  package var periodKnownBy: PeriodSource?
  /// The product of a later period of the subscription that runs, where the catalog lacks it and nothing else is known of the
  /// end.
  package var goesOnAs: ProductID?
  /// At most `passedOverLimit` rows; `passedOverCount` has the true number.
  package var passedOver: [PassedOver]
  package var passedOverCount: Int
  package var policy: PolicyValue?
  package var evaluatedAt: Date?

  /// The property names in the ledger; a differing name is the property's former one.
  private enum CodingKeys: String, CodingKey {
    case decidedBy, givenBy, periodKnownBy, goesOnAs, passedOver, passedOverCount, policy
    case evaluatedAt = "judgedAt"
  }

  /// A limit that keeps a verdict over thousands of rows small.
  package static let passedOverLimit = 50

  package init(
    decidedBy: TransactionID?, periodKnownBy: PeriodSource? = nil, goesOnAs: ProductID? = nil,
    passedOver: [PassedOver], policy: PolicyValue? = nil, evaluatedAt: Date?
  ) {
    self.decidedBy = decidedBy
    self.periodKnownBy = periodKnownBy
    self.goesOnAs = goesOnAs
    self.passedOver = Array(passedOver.prefix(Self.passedOverLimit))
    self.passedOverCount = passedOver.count
    self.policy = policy
    self.evaluatedAt = evaluatedAt
  }
}
