/// The body of `POST /v1/offers/promotional` and, without `offerID`, of `POST /v1/offers/introductory`.
public struct OfferRequest: Codable, Hashable, Sendable {
  public var productID: String
  /// The offer's identifier in App Store Connect.
  public var offerID: String?
  /// The user that the offer is for: required from a server, and taken from a user's token.
  public var userID: String?
  /// A transaction of the customer's, or the app transaction ID; `nil`: the newest that the service knows.
  public var transactionID: String?
  /// The app, where the service is for several.
  public var bundleID: String?

  public init(
    productID: String, offerID: String? = nil, userID: String? = nil, transactionID: String? = nil,
    bundleID: String? = nil
  ) {
    self.productID = productID
    self.offerID = offerID
    self.userID = userID
    self.transactionID = transactionID
    self.bundleID = bundleID
  }

  enum CodingKeys: String, CodingKey {
    case productID = "product_id"
    case offerID = "offer_id"
    case userID = "user_id"
    case transactionID = "transaction_id"
    case bundleID = "bundle_id"
  }
}

/// A promotional offer, signed for one purchase.
public struct PromotionalOfferResponse: Codable, Hashable, Sendable {
  public var productID: String
  public var offerID: String
  /// For `promotionalOffer(_:compactJWS:)` of StoreKit 2.
  public var jws: String
  /// The former form.
  public var signature: Signature

  public init(productID: String, offerID: String, jws: String, signature: Signature) {
    self.productID = productID
    self.offerID = offerID
    self.jws = jws
    self.signature = signature
  }

  enum CodingKeys: String, CodingKey {
    case productID = "product_id"
    case offerID = "offer_id"
    case jws, signature
  }

  /// The members of StoreKit's `SKPaymentDiscount`. The App Store takes it for 24 hours.
  public struct Signature: Codable, Hashable, Sendable {
    public var keyID: String
    public var nonce: String
    /// Milliseconds since 1970.
    public var timestamp: Int64
    /// In base64.
    public var signature: String
    /// The purchase has to have this `appAccountToken`: the user's ID, where it is a UUID; none where it is `nil`.
    @Nullable public var appAccountToken: String?

    public init(keyID: String, nonce: String, timestamp: Int64, signature: String, appAccountToken: String?) {
      self.keyID = keyID
      self.nonce = nonce
      self.timestamp = timestamp
      self.signature = signature
      self.appAccountToken = appAccountToken
    }

    enum CodingKeys: String, CodingKey {
      case keyID = "key_id"
      case nonce, timestamp, signature
      case appAccountToken = "app_account_token"
    }
  }
}

/// Whether the user gets the introductory offer of a product, signed for one purchase.
public struct IntroductoryOfferResponse: Codable, Hashable, Sendable {
  public var productID: String
  public var isAllowed: Bool
  /// For `introductoryOfferEligibility(compactJWS:)` of StoreKit 2.
  public var jws: String

  public init(productID: String, isAllowed: Bool, jws: String) {
    self.productID = productID
    self.isAllowed = isAllowed
    self.jws = jws
  }

  enum CodingKeys: String, CodingKey {
    case productID = "product_id"
    case isAllowed = "allowed"
    case jws
  }
}

/// The answer of `GET /v1/profiles/{user_id}/offers`: what the user may have now.
public struct OffersResponse: Codable, Hashable, Sendable {
  public var promotional: [Promotional]
  /// The products for which the catalog decides.
  public var introductory: [Introductory]
  /// The win-back offers that Apple grants the customer, the best first.
  public var winBack: [WinBack]

  public init(promotional: [Promotional], introductory: [Introductory], winBack: [WinBack]) {
    self.promotional = promotional
    self.introductory = introductory
    self.winBack = winBack
  }

  enum CodingKeys: String, CodingKey {
    case promotional, introductory
    case winBack = "win_back"
  }

  public struct Promotional: Codable, Hashable, Sendable {
    public var productID: String
    public var offerID: String

    public init(productID: String, offerID: String) {
      self.productID = productID
      self.offerID = offerID
    }

    enum CodingKeys: String, CodingKey {
      case productID = "product_id"
      case offerID = "offer_id"
    }
  }

  public struct Introductory: Codable, Hashable, Sendable {
    public var productID: String
    public var isAllowed: Bool

    public init(productID: String, isAllowed: Bool) {
      self.productID = productID
      self.isAllowed = isAllowed
    }

    enum CodingKeys: String, CodingKey {
      case productID = "product_id"
      case isAllowed = "allowed"
    }
  }

  public struct WinBack: Codable, Hashable, Sendable {
    public var offerID: String
    /// The product that the customer had last.
    @Nullable public var productID: String?
    public var originalTransactionID: String
    public var environment: EntitlementState.Environment

    public init(
      offerID: String, productID: String?, originalTransactionID: String, environment: EntitlementState.Environment
    ) {
      self.offerID = offerID
      self.productID = productID
      self.originalTransactionID = originalTransactionID
      self.environment = environment
    }

    enum CodingKeys: String, CodingKey {
      case offerID = "offer_id"
      case productID = "product_id"
      case originalTransactionID = "original_transaction_id"
      case environment
    }
  }
}
