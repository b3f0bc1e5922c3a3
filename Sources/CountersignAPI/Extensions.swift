/// The body of `POST /v1/purchases/{original_transaction_id}/extensions`.
public struct ExtensionRequest: Codable, Hashable, Sendable {
  /// 1 to 90.
  public var days: Int?
  /// `undeclared`, `customer_satisfaction`, `other` or `service_issue`.
  public var reason: String?
  /// The cause, for readers of the history; at most 1,000 characters. Support has to say it.
  public var note: String?
  /// `production` or `sandbox`: needed only where both know the ID.
  public var environment: String?

  public init(days: Int?, reason: String?, note: String? = nil, environment: String? = nil) {
    self.days = days
    self.reason = reason
    self.note = note
    self.environment = environment
  }
}

/// The body of `POST /v1/products/{product_id}/extensions`.
public struct ProductExtensionRequest: Codable, Hashable, Sendable {
  /// 1 to 90.
  public var days: Int?
  /// `undeclared`, `customer_satisfaction`, `other` or `service_issue`.
  public var reason: String?
  /// The cause, for readers of the list; at most 1,000 characters. Support has to say it.
  public var note: String?
  /// Three-letter codes of countries; all, if absent.
  public var storefronts: [String]?
  /// `production`, if absent, or `sandbox`.
  public var environment: String?
  /// The app: needed only where the service has several.
  public var bundleID: String?

  public init(
    days: Int?, reason: String?, note: String? = nil, storefronts: [String]? = nil, environment: String? = nil,
    bundleID: String? = nil
  ) {
    self.days = days
    self.reason = reason
    self.note = note
    self.storefronts = storefronts
    self.environment = environment
    self.bundleID = bundleID
  }

  enum CodingKeys: String, CodingKey {
    case days, reason, note, storefronts, environment
    case bundleID = "bundle_id"
  }
}

/// An extension of renewal dates, of one purchase or of all active subscribers of a product.
public struct ExtensionResponse: Codable, Hashable, Sendable {
  /// How far Apple has come with an extension of a product.
  public struct Progress: Codable, Hashable, Sendable {
    /// Users here with access by the product when it was asked for. Apple may count others.
    public var expected: Int64
    public var extended: Int64
    public var failed: Int64

    public init(expected: Int64, extended: Int64, failed: Int64) {
      self.expected = expected
      self.extended = extended
      self.failed = failed
    }
  }

  public var id: String
  /// The name of the request at Apple.
  public var requestIdentifier: String
  /// `due`, `running`, `done`, `refused` or `failed`.
  public var state: String
  public var environment: String
  @Nullable public var originalTransactionID: String?
  @Nullable public var productID: String?
  @Nullable public var storefronts: [String]?
  public var days: Int
  public var reason: String
  /// The name of the key that asked.
  public var author: String
  @Nullable public var note: String?
  public var askedAt: Date
  @Nullable public var closedAt: Date?
  /// The new end of the purchase's period.
  @Nullable public var expiresAt: Date?
  /// The reason of Apple's refusal, or the last problem.
  @Nullable public var problem: String?
  @Nullable public var progress: Progress?

  public init(
    id: String, requestIdentifier: String, state: String, environment: String, originalTransactionID: String?,
    productID: String?, storefronts: [String]?, days: Int, reason: String, author: String, note: String?,
    askedAt: Date, closedAt: Date?, expiresAt: Date?, problem: String?, progress: Progress?
  ) {
    self.id = id
    self.requestIdentifier = requestIdentifier
    self.state = state
    self.environment = environment
    self.originalTransactionID = originalTransactionID
    self.productID = productID
    self.storefronts = storefronts
    self.days = days
    self.reason = reason
    self.author = author
    self.note = note
    self.askedAt = askedAt
    self.closedAt = closedAt
    self.expiresAt = expiresAt
    self.problem = problem
    self.progress = progress
  }

  enum CodingKeys: String, CodingKey {
    case id, state, environment, storefronts, days, reason, author, note, problem, progress
    case requestIdentifier = "request_identifier"
    case originalTransactionID = "original_transaction_id"
    case productID = "product_id"
    case askedAt = "asked_at"
    case closedAt = "closed_at"
    case expiresAt = "expires_at"
  }
}

/// Extensions of renewal dates, the newest first.
public struct ExtensionsResponse: Codable, Hashable, Sendable {
  public var extensions: [ExtensionResponse]

  public init(extensions: [ExtensionResponse]) { self.extensions = extensions }
}
