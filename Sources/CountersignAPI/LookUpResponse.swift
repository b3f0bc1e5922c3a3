/// The answer to `GET /v1/lookup/{id}`: the meaning of an ID, and its owner.
public struct LookUpResponse: Codable, Hashable, Sendable {
  public var id: String
  /// The kinds of ID that matched, the first match at the head: `user_id`, `original_transaction_id`,
  /// `transaction_id`, `order_id`. Empty for an unknown ID.
  public var foundAs: [String]
  /// The user, if the service has seen one with this ID.
  @Nullable public var userID: String?
  public var purchases: [PurchaseResponse]
  /// Purchases without an owner; a transfer assigns one to a user.
  public var unowned: [UnownedPurchase]
  /// Whether all recorded transactions were searched.
  public var searchedAll: Bool
  /// `not_configured`, `not_asked`, `answered` or `unavailable`.
  public var appStore: String

  public init(
    id: String, foundAs: [String], userID: String? = nil, purchases: [PurchaseResponse], unowned: [UnownedPurchase],
    searchedAll: Bool, appStore: String
  ) {
    self.id = id
    self.foundAs = foundAs
    self.userID = userID
    self.purchases = purchases
    self.unowned = unowned
    self.searchedAll = searchedAll
    self.appStore = appStore
  }

  enum CodingKeys: String, CodingKey {
    case id
    case foundAs = "found_as"
    case userID = "user_id"
    case purchases, unowned
    case searchedAll = "searched_all"
    case appStore = "app_store"
  }
}

extension LookUpResponse {
  /// A purchase that Apple reported and nobody presented.
  public struct UnownedPurchase: Codable, Hashable, Sendable {
    public var originalTransactionID: String
    public var environment: EntitlementState.Environment
    @Nullable public var productID: String?
    /// The UUID that the app gave the purchase:
    /// https://developer.apple.com/documentation/storekit/transaction/appaccounttoken
    @Nullable public var accountToken: String?
    /// `notification`: a server notification. `app_store`: an answer to this look-up.
    public var source: String

    public init(
      originalTransactionID: String, environment: EntitlementState.Environment, productID: String? = nil,
      accountToken: String? = nil, source: String
    ) {
      self.originalTransactionID = originalTransactionID
      self.environment = environment
      self.productID = productID
      self.accountToken = accountToken
      self.source = source
    }

    enum CodingKeys: String, CodingKey {
      case originalTransactionID = "original_transaction_id"
      case environment
      case productID = "product_id"
      case accountToken = "app_account_token"
      case source = "told_by"
    }
  }
}
