/// The body of `PUT /v1/purchases/{transaction_id}/consumption`: consumption information for Apple's decision on a refund. Names
/// and values are Apple's; a member that is absent is left to the policy and to what the service can prove.
///
/// https://developer.apple.com/documentation/appstoreserverapi/consumptionrequest
public struct ConsumptionBody: Codable, Hashable, Sendable {
  /// Whether the customer has consented that Apple gets it; without consent nothing is sent.
  public var customerConsented: Bool?
  /// The share that the customer has consumed, in thousandths of a percent.
  public var consumptionPercentage: Int?
  /// `DELIVERED`, or `UNDELIVERED_` with `QUALITY_ISSUE`, `WRONG_ITEM`, `SERVER_OUTAGE` or `OTHER`.
  public var deliveryStatus: String?
  /// `DECLINE`, `GRANT_FULL` or `GRANT_PRORATED`.
  public var refundPreference: String?
  public var sampleContentProvided: Bool?
  /// `production`, if absent, or `sandbox`.
  public var environment: String?

  public init(
    customerConsented: Bool? = nil, consumptionPercentage: Int? = nil, deliveryStatus: String? = nil,
    refundPreference: String? = nil, sampleContentProvided: Bool? = nil, environment: String? = nil
  ) {
    self.customerConsented = customerConsented
    self.consumptionPercentage = consumptionPercentage
    self.deliveryStatus = deliveryStatus
    self.refundPreference = refundPreference
    self.sampleContentProvided = sampleContentProvided
    self.environment = environment
  }

  public enum CodingKeys: String, CodingKey, CaseIterable {
    case customerConsented = "customer_consented"
    case consumptionPercentage = "consumption_percentage"
    case deliveryStatus = "delivery_status"
    case refundPreference = "refund_preference"
    case sampleContentProvided = "sample_content_provided"
    case environment
  }
}

/// The answer to `/v1/purchases/{transaction_id}/consumption`.
public struct ConsumptionResponse: Codable, Hashable, Sendable {
  /// Apple's newest request about the transaction.
  public struct Request: Codable, Hashable, Sendable {
    /// `due`, `answered`, `unconsented`, `missed` or `refused`.
    public var state: String
    public var askedAt: Date
    public var answerBy: Date
    @Nullable public var closedAt: Date?
    /// Why there is no answer yet, or none.
    @Nullable public var problem: String?

    public init(state: String, askedAt: Date, answerBy: Date, closedAt: Date?, problem: String?) {
      self.state = state
      self.askedAt = askedAt
      self.answerBy = answerBy
      self.closedAt = closedAt
      self.problem = problem
    }

    enum CodingKeys: String, CodingKey {
      case state
      case askedAt = "asked_at"
      case answerBy = "answer_by"
      case closedAt = "closed_at"
      case problem
    }
  }

  public var transactionID: String
  /// The last body that was put, with a customer's `false` of one before; `nil` before any.
  @Nullable public var said: ConsumptionBody?
  /// `nil` where Apple has not asked.
  @Nullable public var request: Request?

  public init(transactionID: String, said: ConsumptionBody?, request: Request?) {
    self.transactionID = transactionID
    self.said = said
    self.request = request
  }

  enum CodingKeys: String, CodingKey {
    case transactionID = "transaction_id"
    case said, request
  }
}
