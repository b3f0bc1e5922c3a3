/// The body of `POST /v1/validations`: one of `receiptData` and `originalTransactionID`.
public struct ValidationRequest: Codable, Hashable, Sendable {
  /// The app receipt in base64, or a signed transaction (JWS) of StoreKit 2.
  public var receiptData: String?
  /// A purchase of the user that the service knows.
  public var originalTransactionID: String?
  /// The owner of the purchase: required from a server, and taken from a user's token.
  public var userID: String?
  /// The transaction that the app wants to finish: the answer says whether it was found.
  public var transactionID: String?

  public init(
    receiptData: String? = nil, originalTransactionID: String? = nil, userID: String? = nil,
    transactionID: String? = nil
  ) {
    self.receiptData = receiptData
    self.originalTransactionID = originalTransactionID
    self.userID = userID
    self.transactionID = transactionID
  }

  public enum CodingKeys: String, CodingKey {
    case receiptData = "receipt_data"
    case originalTransactionID = "original_transaction_id"
    case userID = "user_id"
    case transactionID = "transaction_id"
  }
}

/// The body of `POST /v1/profiles/{user_id}/revalidation`.
public struct UserRevalidationRequest: Codable, Hashable, Sendable {
  /// Why, for readers of the history; at most 1,000 characters.
  public var note: String?

  public init(note: String? = nil) { self.note = note }
}

/// The body of `POST /v1/transactions/{original_transaction_id}/transfer`.
public struct TransferRequest: Codable, Hashable, Sendable {
  /// The user who gets the purchase.
  public var to: String
  /// Why, for readers of the history; at most 1,000 characters.
  public var note: String?
  /// `production` or `sandbox`, where both stores know the ID.
  public var environment: String?
  /// Whether an unknown user is accepted; otherwise the answer is 409 `unknown_user`.
  public var create: Bool?

  public init(to: String, note: String? = nil, environment: String? = nil, create: Bool? = nil) {
    self.to = to
    self.note = note
    self.environment = environment
    self.create = create
  }
}

/// The body of `POST /v1/revalidations`.
public struct RunRequest: Codable, Hashable, Sendable {
  /// The longest time until a subscription's end, as a duration: `24h`, `7d`. Required.
  public var expiringWithin: String?
  /// The most subscriptions, from 1 to 100,000; those that end first are taken.
  public var limit: Int?
  /// Whether due subscriptions are only counted.
  public var isDryRun: Bool?

  public init(expiringWithin: String? = nil, limit: Int? = nil, isDryRun: Bool? = nil) {
    self.expiringWithin = expiringWithin
    self.limit = limit
    self.isDryRun = isDryRun
  }

  public enum CodingKeys: String, CodingKey, CaseIterable {
    case expiringWithin = "expiring_within"
    case limit
    case isDryRun = "dry_run"
  }
}
