import Entitlements
import FoundationEssentials
import Ledger
import Validation

/// The parts of `POST /v1/receipts` that decide something; the rest is about paywalls.
struct PostedReceipt: Decodable {
  var appUserID: String?
  /// A signed transaction, or an app receipt in base64; of Android a token of Play's.
  var fetchToken: String?
  /// A signed proof that the app was downloaded. It is sent alone by a customer who restores and never bought.
  var appTransaction: String?
  var attributes: [String: PostedAttribute]?
  /// The purchase that the SDK finishes after a 2xx.
  var productID: String?
  var transactionID: String?
  var isRestore: Bool
  /// Why the SDK sends a transaction that it finishes after a 2xx: it was just bought, or waits in the queue.
  var initiation: Initiation?

  enum Initiation: String {
    case purchase, queue
  }

  enum CodingKeys: String, CodingKey {
    case appUserID = "app_user_id"
    case fetchToken = "fetch_token"
    case appTransaction = "app_transaction"
    case attributes
    case productID = "product_id"
    case transactionID = "transaction_id"
    case isRestore = "is_restore"
    case initiationSource = "initiation_source"
  }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    appUserID = try container.decodeIfPresent(String.self, forKey: .appUserID)
    let token = try container.decodeIfPresent(String.self, forKey: .fetchToken)
    fetchToken = token.flatMap { $0 == "null" || $0.utf8.allSatisfy { $0 <= UInt8(ascii: " ") } ? nil : $0 }
    appTransaction = try container.decodeIfPresent(String.self, forKey: .appTransaction)
    productID = try? container.decodeIfPresent(String.self, forKey: .productID)
    transactionID = try? container.decodeIfPresent(String.self, forKey: .transactionID)
    // The SDK sets `is_restore` in every purchase of an anonymous customer. Old versions send no `initiation_source`.
    let source = try? container.decodeIfPresent(String.self, forKey: .initiationSource)
    isRestore = try source.map { $0 == "restore" } ?? container.decodeIfPresent(Bool.self, forKey: .isRestore) ?? false
    initiation = source.flatMap(Initiation.init(rawValue:))
    // A purchase is worth more than what is said beside it.
    attributes = try? container.decodeIfPresent([String: PostedAttribute].self, forKey: .attributes)
  }
}

/// An attribute that an app sets for its customer: a text, with the time on the device.
struct PostedAttribute: Decodable {
  var value: String?
  var updatedAtMilliseconds: Int64

  enum CodingKeys: String, CodingKey {
    case value
    case updatedAtMilliseconds = "updated_at_ms"
  }

  init(from decoder: any Decoder) throws {
    let container = try decoder.container(keyedBy: CodingKeys.self)
    value = try container.decodeIfPresent(String.self, forKey: .value)
    // Android writes it with a point.
    let milliseconds = try container.decodeIfPresent(Double.self, forKey: .updatedAtMilliseconds) ?? 0
    updatedAtMilliseconds = Int64(exactly: milliseconds.rounded()) ?? 0
  }

  /// The reason why an attribute is not kept; `nil` for one that is.
  static func problem(_ name: String, _ attribute: PostedAttribute) -> String? {
    let longestName = CustomerAttribute.longestName
    guard (1...longestName).contains(name.utf8.count), name.first?.isLetter == true || name.hasPrefix("$") else {
      return "A name has 1 to \(longestName) bytes, and begins with a letter or, where it is RevenueCat's, with $."
    }
    guard (attribute.value ?? "").utf8.count <= CustomerAttribute.longestValue else {
      return "A value has at most \(CustomerAttribute.longestValue) bytes."
    }
    guard !name.utf8.contains(0), attribute.value?.utf8.contains(0) != true else {
      return "An attribute has no NUL."
    }
    return nil
  }

  var kept: CustomerAttribute {
    CustomerAttribute(value: value?.isEmpty == true ? nil : value, updatedAtMilliseconds: updatedAtMilliseconds)
  }
}

/// `POST /v1/subscribers/{app_user_id}/attributes`
struct PostedAttributes: Decodable {
  var attributes: [String: PostedAttribute]
}

/// `POST /v1/subscribers/identify`, and the alias of older SDKs.
struct PostedIdentity: Decodable {
  var appUserID: String?
  var newAppUserID: String

  enum CodingKeys: String, CodingKey {
    case appUserID = "app_user_id"
    case newAppUserID = "new_app_user_id"
  }
}

/// `POST …/restore/eligibility`
struct PostedRestore: Decodable {
  var fetchToken: String?

  enum CodingKeys: String, CodingKey {
    case fetchToken = "fetch_token"
  }
}

/// `POST …/intro_eligibility`
struct PostedProducts: Decodable {
  var productIdentifiers: [String]?

  enum CodingKeys: String, CodingKey {
    case productIdentifiers = "product_identifiers"
  }
}

/// `POST /v1/offers`
struct PostedOffers: Decodable {
  struct Offer: Decodable {
    var offerID: String?
    var productID: String?

    enum CodingKeys: String, CodingKey {
      case offerID = "offer_id"
      case productID = "product_id"
    }
  }

  var appUserID: String?
  /// The purchases so far: a signed transaction of StoreKit 2, or an app receipt of StoreKit 1.
  var fetchToken: String?
  var generateOffers: [Offer]?

  enum CodingKeys: String, CodingKey {
    case appUserID = "app_user_id"
    case fetchToken = "fetch_token"
    case generateOffers = "generate_offers"
  }
}

extension UserID {
  /// An app user ID as RevenueCat's SDKs send it.
  init(checkingAppUserID text: String?) throws(RevenueCatError) {
    guard let text else { throw RevenueCatError(.emptyUserID, "'app_user_id' is missing.") }
    guard !text.isEmpty else { throw RevenueCatError(.emptyUserID, "The app user ID is empty.") }
    guard let id = UserID(appUserID: text) else {
      throw RevenueCatError(
        .invalidUserID,
        "An app user ID has 1 to 100 characters, without '/' and spaces, and is neither 'me' nor a placeholder such as 'null'."
      )
    }
    // A device's ID is known to whoever holds the device: it opens its trial, and nothing else.
    guard !id.isDevice else { throw RevenueCatError(.invalidUserID, "The ID of a device is no app user ID.") }
    self = id
  }
}
