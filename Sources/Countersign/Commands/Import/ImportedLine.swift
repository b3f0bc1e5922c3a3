import AppStore
import CountersignServer
import FoundationEssentials

/// A customer as another service knows them: one line of a file to import.
///
///     {"user_id": "u1", "receipt_data": "MII…", "tier": "pro"}
///     {"user_id": "u1", "original_transaction_id": "2000000123456789"}
///     {"subscriber": {"original_app_user_id": "u1", "entitlements": {…}, "subscriptions": {…}}}
///
/// The third is what RevenueCat's API answers about a customer (`GET /v1/subscribers/{app_user_id}`); an `app_user_id`
/// beside `subscriber` names the user where the original ID is another.
struct ImportedLine: Hashable, Sendable {
  /// The means by which Apple is asked about a purchase.
  enum Proof: Hashable, Sendable {
    case receipt(String)
    /// A transaction ID. Apple finds a purchase by any of its transactions.
    case transactionID(String)
  }

  var user: String
  /// May be empty where the tiers are known: a customer who bought nothing at Apple's.
  var proofs: [Proof]
  /// The tiers that the other service gives; `nil` where the line does not say.
  var tiers: Set<String>?
  /// Purchases at other stores, which Apple knows nothing of.
  var purchasesElsewhere = 0
  /// The access that the other service gave without a purchase.
  var promotions: [Promotion] = []

  struct Promotion: Hashable, Sendable {
    var tier: String
    /// `nil`: for life.
    var end: Date?
  }

  /// The reason why a line cannot be used.
  struct Unreadable: Error, Hashable {
    var sentence: String
  }

  /// The store that RevenueCat names for access without a purchase.
  static let promotional = "promotional"

  /// Bytes of the longest line: a receipt may have 8 MiB.
  static let longest = 9 * 1024 * 1024
}

extension ImportedLine {
  /// - Parameter now: the moment for which a customer's tiers are taken where the line has no `request_date`.
  init(_ line: some DataProtocol, at now: Date) throws(Unreadable) {
    let object: Object
    do { object = try JSONDecoder().decode(Object.self, from: Data(line)) } catch {
      throw Unreadable(sentence: Self.sentence(error))
    }
    if let subscriber = object.subscriber {
      self.init(subscriber, user: object.appUserID ?? object.userID, at: object.requestDate.flatMap(Self.date) ?? now)
      guard !proofs.isEmpty || tiers != nil else {
        let stores = Set(subscriber.purchases.map(\.store)).sorted().joined(separator: ", ")
        throw Unreadable(
          sentence: "neither a tier nor a purchase at Apple's with its transaction is there"
            + (stores.isEmpty ? "" : "; store is \(Quotation.of(stores))"))
      }
    } else {
      guard let user = object.userID ?? object.appUserID else { throw Unreadable(sentence: "'user_id' is missing") }
      let proofs = [object.receiptData.map(Proof.receipt), object.originalTransactionID.map(Proof.transactionID)]
        .compactMap(\.self)
      guard !proofs.isEmpty else {
        throw Unreadable(sentence: "neither 'receipt_data' nor 'original_transaction_id' is there")
      }
      self.init(user: user, proofs: proofs, tiers: object.tier.map { [$0] })
    }
    guard !self.user.isEmpty else { throw Unreadable(sentence: "the user ID is empty") }
  }

  private static func sentence(_ error: any Error) -> String {
    func name(_ path: [any CodingKey]) -> String { Quotation.of(path.map(\.stringValue).joined(separator: ".")) }
    return switch error {
    case DecodingError.typeMismatch(let type, let context) where !context.codingPath.isEmpty:
      "\(name(context.codingPath)) has to be \(type == String.self ? "a text" : "of another type")"
    case DecodingError.valueNotFound(_, let context) where !context.codingPath.isEmpty:
      "\(name(context.codingPath)) is null"
    case DecodingError.keyNotFound(let key, let context): "\(name(context.codingPath + [key])) is missing"
    default: "it is no JSON object with 'user_id' or 'subscriber'"
    }
  }

  private init(_ subscriber: Subscriber, user: String?, at moment: Date) {
    let purchases = subscriber.purchases
    let own = purchases.filter { ["app_store", "mac_app_store"].contains($0.store) }
    let ids = Set(own.compactMap(\.storeTransactionID)).sorted()
    let active = subscriber.entitlements?.filter { ($0.value.end ?? .distantFuture) >= moment }
    let given = Set((subscriber.subscriptions ?? [:]).filter { $0.value.store == Self.promotional }.keys)
    let promotions = (active ?? [:]).filter { given.contains($0.value.productIdentifier ?? "") }
      .map { Promotion(tier: $0.key, end: $0.value.end) }
    self.init(
      user: user ?? subscriber.originalAppUserID, proofs: ids.map(Proof.transactionID),
      tiers: active.map { Set($0.keys) },
      purchasesElsewhere: purchases.count { $0.store != Self.promotional } - own.count,
      promotions: promotions.sorted { $0.tier < $1.tier })
  }

  // MARK: The JSON

  private struct Object: Decodable {
    var userID: String?
    var appUserID: String?
    var receiptData: String?
    var originalTransactionID: String?
    var tier: String?
    var subscriber: Subscriber?
    var requestDate: String?

    enum CodingKeys: String, CodingKey {
      case userID = "user_id"
      case appUserID = "app_user_id"
      case receiptData = "receipt_data"
      case originalTransactionID = "original_transaction_id"
      case tier, subscriber
      case requestDate = "request_date"
    }
  }

  static func date(_ text: String) -> Date? { ReceiptDate.parse(rfc3339: Array(text.utf8)[...]) }

  private struct Subscriber: Decodable {
    struct Purchase: Decodable {
      var store: String
      var storeTransactionID: String?

      enum CodingKeys: String, CodingKey {
        case store
        case storeTransactionID = "store_transaction_id"
      }
    }

    struct Entitlement: Decodable {
      var expiresDate: String?
      var gracePeriodExpiresDate: String?
      var productIdentifier: String?

      enum CodingKeys: String, CodingKey {
        case expiresDate = "expires_date"
        case gracePeriodExpiresDate = "grace_period_expires_date"
        case productIdentifier = "product_identifier"
      }

      /// The end, with a grace period; `nil`: for life.
      var end: Date? {
        let ends = [expiresDate, gracePeriodExpiresDate].compactMap { $0.map { ImportedLine.date($0) ?? .distantPast } }
        return expiresDate == nil ? nil : ends.max()
      }
    }

    var originalAppUserID: String
    var entitlements: [String: Entitlement]?
    var subscriptions: [String: Purchase]?
    var nonSubscriptions: [String: [Purchase]]?

    var purchases: [Purchase] {
      (subscriptions ?? [:]).values.map(\.self) + (nonSubscriptions ?? [:]).values.flatMap(\.self)
    }

    enum CodingKeys: String, CodingKey {
      case originalAppUserID = "original_app_user_id"
      case entitlements, subscriptions
      case nonSubscriptions = "non_subscriptions"
    }
  }
}
