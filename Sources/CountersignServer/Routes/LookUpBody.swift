import Entitlements
import Validation

/// What an ID was found to be, and whose. Every member is always there.
struct LookUpBody: Encodable {
  var id: String
  var found: SupportLookUp.Found
  var purchases: [PurchaseBody]

  enum CodingKeys: String, CodingKey {
    case id
    case foundAs = "found_as"
    case userID = "user_id"
    case purchases, unowned
    case searchedAll = "searched_all"
    case appStore = "app_store"
  }

  func encode(to encoder: any Encoder) throws {
    var container = encoder.container(keyedBy: CodingKeys.self)
    try container.encode(id, forKey: .id)
    try container.encode(found.kinds.map(\.rawValue), forKey: .foundAs)
    try container.encode(found.user?.rawValue, forKey: .userID)
    try container.encode(purchases, forKey: .purchases)
    try container.encode(found.unowned.map(Unowned.init), forKey: .unowned)
    try container.encode(found.isSnapshot, forKey: .searchedAll)
    try container.encode(found.appStore.rawValue, forKey: .appStore)
  }

  private struct Unowned: Encodable {
    var purchase: SupportLookUp.UnownedPurchase

    init(_ purchase: SupportLookUp.UnownedPurchase) { self.purchase = purchase }

    enum CodingKeys: String, CodingKey {
      case originalTransactionID = "original_transaction_id"
      case environment
      case productID = "product_id"
      case accountToken = "app_account_token"
      case toldBy = "told_by"
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(purchase.key.originalTransactionID.rawValue, forKey: .originalTransactionID)
      try container.encode(purchase.key.environment.rawValue, forKey: .environment)
      try container.encode(purchase.productID?.rawValue, forKey: .productID)
      try container.encode(purchase.accountToken, forKey: .accountToken)
      try container.encode(purchase.source.rawValue, forKey: .toldBy)
    }
  }
}
