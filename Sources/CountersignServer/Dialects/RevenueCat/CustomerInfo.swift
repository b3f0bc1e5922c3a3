import CountersignAPI
import Entitlements
import FoundationEssentials

/// A customer as RevenueCat's SDKs read one.
///
/// Every member but a price and a base plan is always there: iOS fails the whole answer without some of them, and Android
/// and the web without others.
struct CustomerInfo: Codable, Hashable, Sendable {
  var requestDate: Date
  var requestDateMilliseconds: Int64
  var subscriber: Subscriber

  struct Subscriber: Codable, Hashable, Sendable {
    var originalAppUserID: String
    var firstSeen: Date
    var lastSeen: Date
    @Nullable var managementURL: String?
    @Nullable var originalApplicationVersion: String?
    @Nullable var originalPurchaseDate: Date?
    var entitlements: [String: Entitlement] = [:]
    var subscriptions: [String: Subscription] = [:]
    var nonSubscriptions: [String: [NonSubscription]] = [:]

    enum CodingKeys: String, CodingKey {
      case originalAppUserID = "original_app_user_id"
      case firstSeen = "first_seen"
      case lastSeen = "last_seen"
      case managementURL = "management_url"
      case originalApplicationVersion = "original_application_version"
      case originalPurchaseDate = "original_purchase_date"
      case entitlements
      case subscriptions
      case nonSubscriptions = "non_subscriptions"
    }
  }

  /// A tier that the customer has or once had. It is active while `expiresDate` is `nil` or not before the request.
  struct Entitlement: Codable, Hashable, Sendable {
    var productIdentifier: String
    /// Google Play's base plan.
    var productPlanIdentifier: String?
    var purchaseDate: Date
    /// The end of access, grace and holds included; `nil` for life.
    @Nullable var expiresDate: Date?
    @Nullable var gracePeriodExpiresDate: Date?

    enum CodingKeys: String, CodingKey {
      case productIdentifier = "product_identifier"
      case productPlanIdentifier = "product_plan_identifier"
      case purchaseDate = "purchase_date"
      case expiresDate = "expires_date"
      case gracePeriodExpiresDate = "grace_period_expires_date"
    }
  }

  /// The newest period of a product that ends.
  struct Subscription: Codable, Hashable, Sendable {
    /// Google Play's base plan.
    var productPlanIdentifier: String?
    var purchaseDate: Date
    var originalPurchaseDate: Date
    @Nullable var expiresDate: Date?
    var store: String
    var isSandbox: Bool
    var periodType: String
    var ownershipType: String
    @Nullable var unsubscribeDetectedAt: Date?
    @Nullable var billingIssuesDetectedAt: Date?
    @Nullable var gracePeriodExpiresDate: Date?
    @Nullable var refundedAt: Date?
    @Nullable var autoResumeDate: Date?
    @Nullable var storeTransactionID: String?
    var price: Price?

    enum CodingKeys: String, CodingKey {
      case productPlanIdentifier = "product_plan_identifier"
      case purchaseDate = "purchase_date"
      case originalPurchaseDate = "original_purchase_date"
      case expiresDate = "expires_date"
      case store
      case isSandbox = "is_sandbox"
      case periodType = "period_type"
      case ownershipType = "ownership_type"
      case unsubscribeDetectedAt = "unsubscribe_detected_at"
      case billingIssuesDetectedAt = "billing_issues_detected_at"
      case gracePeriodExpiresDate = "grace_period_expires_date"
      case refundedAt = "refunded_at"
      case autoResumeDate = "auto_resume_date"
      case storeTransactionID = "store_transaction_id"
      case price
    }
  }

  /// The price that the customer paid; missing where nobody said so.
  struct Price: Codable, Hashable, Sendable {
    /// In units of the currency.
    var amount: Double
    var currency: String

    init?(_ sale: Purchase.Sale?) {
      guard let price = sale?.price, let currency = sale?.currency else { return nil }
      amount = Double(price) / 1000
      self.currency = currency
    }
  }

  /// A purchase without an end. iOS finishes it only where it finds its transaction ID here.
  struct NonSubscription: Codable, Hashable, Sendable {
    var id: String
    var storeTransactionID: String
    var purchaseDate: Date
    var originalPurchaseDate: Date
    var store: String
    var isSandbox: Bool
    var price: Price?

    enum CodingKeys: String, CodingKey {
      case id, price
      case storeTransactionID = "store_transaction_id"
      case purchaseDate = "purchase_date"
      case originalPurchaseDate = "original_purchase_date"
      case store
      case isSandbox = "is_sandbox"
    }
  }

  enum CodingKeys: String, CodingKey {
    case requestDate = "request_date"
    case requestDateMilliseconds = "request_date_ms"
    case subscriber
  }
}
