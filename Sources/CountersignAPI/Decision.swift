/// The way in which a verdict was reached, for machines and auditors.
public struct Decision: Codable, Hashable, Sendable {
  /// The reason, which is also the name of the row of the decision table.
  public var reason: EntitlementState.Reason
  /// The transaction that decided.
  @Nullable public var transactionID: String?
  /// The grant or trial that decided.
  @Nullable public var grantID: String?
  /// The configured value that mattered.
  @Nullable public var policy: Policy?
  /// The transactions that did not decide; of many, only the first.
  public var passedOver: [PassedOver]
  /// How many transactions did not decide.
  public var passedOverCount: Int
  /// The evaluation time.
  @Nullable public var evaluatedAt: Date?

  public init(
    reason: EntitlementState.Reason, transactionID: String? = nil, grantID: String? = nil, policy: Policy? = nil,
    passedOver: [PassedOver], passedOverCount: Int, evaluatedAt: Date? = nil
  ) {
    self.reason = reason
    self.transactionID = transactionID
    self.grantID = grantID
    self.policy = policy
    self.passedOver = passedOver
    self.passedOverCount = passedOverCount
    self.evaluatedAt = evaluatedAt
  }

  enum CodingKeys: String, CodingKey {
    case reason
    case transactionID = "transaction_id"
    case grantID = "grant_id"
    case policy
    case passedOver = "passed_over"
    case passedOverCount = "passed_over_count"
    case evaluatedAt = "judged_at"
  }
}

extension Decision {
  /// A key of the service's configuration, and its value.
  public struct Policy: Codable, Hashable, Sendable {
    public var key: String
    public var value: String

    public init(key: String, value: String) {
      self.key = key
      self.value = value
    }
  }

  /// A transaction that did not decide, and why.
  public struct PassedOver: Codable, Hashable, Sendable {
    public var transactionID: String
    public var productID: String
    /// The reason, for instance `ends_earlier` or `upgraded`.
    public var cause: String

    public init(transactionID: String, productID: String, cause: String) {
      self.transactionID = transactionID
      self.productID = productID
      self.cause = cause
    }

    enum CodingKeys: String, CodingKey {
      case transactionID = "transaction_id"
      case productID = "product_id"
      case cause
    }
  }
}
