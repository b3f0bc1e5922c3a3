/// A paid period as Apple last reported it, with the grace and retry after it: a bar of a timeline of purchases.
public struct PurchasePeriod: Codable, Hashable, Sendable {
  public var originalTransactionID: String
  public var transactionID: String
  public var environment: EntitlementState.Environment
  public var productID: String
  /// The tier that it grants while it runs; `nil` for a product that is not in the catalog.
  @Nullable public var tier: String?
  @Nullable public var startsAt: Date?
  /// `nil` for a purchase for life.
  @Nullable public var endsAt: Date?
  /// When Apple refunded it or took it back.
  @Nullable public var takenBackAt: Date?
  /// Whether another product was bought in its place before its end.
  public var isUpgraded: Bool
  public var isTrial: Bool
  public var ownership: EntitlementState.Ownership
  /// The end of Apple's grace period after it.
  @Nullable public var graceUntil: Date?
  /// Until when the service gives access while Apple retries the payment.
  @Nullable public var retryUntil: Date?
  /// Until when it is granted on Apple's signature alone.
  @Nullable public var provisionalUntil: Date?
  /// The transaction's price, offer, refund and commitment, as far as Apple says.
  public var terms: PurchaseTerms?
  /// The price, offer and commitment of the renewal after it, as far as Apple says.
  public var renewal: RenewalTerms?

  public init(
    originalTransactionID: String, transactionID: String, environment: EntitlementState.Environment, productID: String,
    tier: String? = nil, startsAt: Date? = nil, endsAt: Date? = nil, takenBackAt: Date? = nil, isUpgraded: Bool,
    isTrial: Bool, ownership: EntitlementState.Ownership, graceUntil: Date? = nil, retryUntil: Date? = nil,
    provisionalUntil: Date? = nil, terms: PurchaseTerms? = nil, renewal: RenewalTerms? = nil
  ) {
    self.originalTransactionID = originalTransactionID
    self.transactionID = transactionID
    self.environment = environment
    self.productID = productID
    self.tier = tier
    self.startsAt = startsAt
    self.endsAt = endsAt
    self.takenBackAt = takenBackAt
    self.isUpgraded = isUpgraded
    self.isTrial = isTrial
    self.ownership = ownership
    self.graceUntil = graceUntil
    self.retryUntil = retryUntil
    self.provisionalUntil = provisionalUntil
    self.terms = terms
    self.renewal = renewal
  }

  enum CodingKeys: String, CodingKey {
    case originalTransactionID = "original_transaction_id"
    case transactionID = "transaction_id"
    case environment
    case productID = "product_id"
    case tier
    case startsAt = "starts_at"
    case endsAt = "ends_at"
    case takenBackAt = "taken_back_at"
    case isUpgraded = "is_upgraded"
    case isTrial = "is_trial"
    case ownership
    case graceUntil = "grace_until"
    case retryUntil = "retry_until"
    case provisionalUntil = "provisional_until"
    case terms, renewal
  }
}
