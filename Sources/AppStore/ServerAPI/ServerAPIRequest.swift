import Entitlements
import HTTPTransport
import JSON

package enum ServerAPIEndpoint: String, Hashable, Sendable, CaseIterable {
  /// Get All Subscription Statuses: every subscription of the customer who made a transaction.
  case statuses
  /// Get Transaction History: one-time purchases only.
  case history
  /// Get Transaction History: the payments of subscriptions only.
  case payments
  /// Get Transaction Info: one transaction.
  case transaction
  /// Look Up Order ID: the transactions of one order.
  case order
  /// Get Notification History: the notifications of one app.
  case notifications
  /// Request a Test Notification, and Get Test Notification Status.
  case testNotification, testOutcome
  /// Send Consumption Information: for Apple's decision on a refund.
  case consumption
  /// Get Refund History: the refunded transactions of the customer who made a transaction.
  case refunds
  /// Set App Account Token: the user who has a purchase.
  case accountToken
  /// Extend a Subscription Renewal Date.
  case renewalExtension
  /// Extend Subscription Renewal Dates for All Active Subscribers, and Get Status of Subscription Renewal Date Extensions.
  case productExtension, productExtensionStatus

  /// Whether it tells Apple something, and the answer is the status alone.
  var isSent: Bool { self == .consumption || self == .accountToken }
}

/// A request with an ID that is proven to be digits, or letters and digits: it is part of the path, where a slash or a
/// dot would ask for something else in our name.
struct ServerAPIRequest: Sendable {
  private static let longestID = 32

  let id: String
  private var query: NotificationQuery?
  private var body: [UInt8]?

  init(_ query: NotificationQuery) {
    id = ""
    self.query = query
    body = JSONWriter.object { json in
      json.member("startDate", query.from.millisecondsSince1970)
      json.member("endDate", query.to.millisecondsSince1970)
      if query.onlyFailures { json.member("onlyFailures", true) }
    }
  }

  /// - Returns: `nil` if the text cannot be an ID of Apple's.
  init?(_ information: ConsumptionInformation, about id: TransactionID) {
    self.init(id: id.rawValue)
    body = JSONWriter.object { json in
      json.member("customerConsented", information.customerConsented == true)
      json.member("consumptionPercentage", ifPresent: information.consumptionPercentage.map(Int64.init))
      json.member("deliveryStatus", ifPresent: information.deliveryStatus?.rawValue)
      json.member("refundPreference", ifPresent: information.refundPreference?.rawValue)
      json.member("sampleContentProvided", information.sampleContentProvided == true)
    }
  }

  /// - Returns: `nil` if the text cannot be an ID of Apple's.
  init?(_ one: RenewalExtension, of id: OriginalTransactionID) {
    self.init(id: id.rawValue)
    body = JSONWriter.object { one.write(to: &$0) }
  }

  init(_ one: RenewalExtension, of product: ExtendedProduct) {
    id = ""
    body = JSONWriter.object { json in
      one.write(to: &json)
      json.member("productId", product.productID.rawValue)
      if let storefronts = product.storefronts {
        json.array("storefrontCountryCodes") { json in for code in storefronts { json.value(code) } }
      }
    }
  }

  init(statusOf productID: ProductID, requestIdentifier: String) {
    id = "\(productID.rawValue.percentEncoded)/\(requestIdentifier.percentEncoded)"
  }

  /// - Parameter token: a lower-case UUID.
  /// - Returns: `nil` if the text cannot be an ID of Apple's.
  init?(accountToken token: String, of id: OriginalTransactionID) {
    self.init(id: id.rawValue)
    body = JSONWriter.object { $0.member("appAccountToken", token) }
  }

  /// - Returns: `nil` if the text cannot be a token of Apple's; an empty one asks for a test notification.
  init?(testToken: String) {
    let isPlain = testToken.utf8.allSatisfy { $0.isDigit || $0.isLetter || "-_".utf8.contains($0) }
    guard testToken.utf8.count <= 128, isPlain else { return nil }
    id = testToken
  }

  /// - Returns: `nil` if the text cannot be an ID of Apple's.
  init?(id: String) {
    guard (1...Self.longestID).contains(id.utf8.count), id.utf8.allSatisfy(\.isDigit) else { return nil }
    self.id = id
  }

  /// - Parameter order: the ID in Apple's mail to the customer: `MXXXXXXXXX`.
  /// - Returns: `nil` if the text cannot be the ID of an order.
  init?(order: String) {
    let isPlain = order.utf8.allSatisfy { $0.isDigit || (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains($0) }
    guard (1...Self.longestID).contains(order.utf8.count), isPlain else { return nil }
    id = order
  }

  /// - Parameter revision: the start of the next page of a history, as Apple named it.
  func path(_ endpoint: ServerAPIEndpoint, revision: String? = nil) -> String {
    switch endpoint {
    case .statuses: "/inApps/v1/subscriptions/\(id)"
    case .transaction: "/inApps/v1/transactions/\(id)"
    case .order: "/inApps/v1/lookup/\(id)"
    case .notifications:
      "/inApps/v1/notifications/history"
        + (query?.token.map { "?paginationToken=\($0.percentEncoded)" } ?? "")
    case .testNotification: "/inApps/v1/notifications/test"
    case .testOutcome: "/inApps/v1/notifications/test/\(id)"
    case .consumption: "/inApps/v2/transactions/consumption/\(id)"
    case .refunds: "/inApps/v2/refund/lookup/\(id)" + (revision.map { "?revision=\($0.percentEncoded)" } ?? "")
    case .accountToken: "/inApps/v1/transactions/\(id)/appAccountToken"
    case .renewalExtension: "/inApps/v1/subscriptions/extend/\(id)"
    case .productExtension: "/inApps/v1/subscriptions/extend/mass"
    case .productExtensionStatus: "/inApps/v1/subscriptions/extend/mass/\(id)"
    case .history:
      // Subscriptions are in the statuses, and consumables are used up.
      "/inApps/v2/history/\(id)?sort=ASCENDING&productType=NON_CONSUMABLE&productType=NON_RENEWABLE"
        + (revision.map { "&revision=\($0.percentEncoded)" } ?? "")
    case .payments:
      "/inApps/v2/history/\(id)?sort=DESCENDING&productType=AUTO_RENEWABLE"
        + (revision.map { "&revision=\($0.percentEncoded)" } ?? "")
    }
  }

  func transportRequest(
    to origin: String, _ endpoint: ServerAPIEndpoint, revision: String?, token: DeveloperToken, answerLimit: Int
  ) -> TransportRequest {
    let base = origin.hasSuffix("/") ? String(origin.dropLast()) : origin
    var headers = [
      TransportHeader("Accept", "application/json"),
      TransportHeader("Authorization", "Bearer \(token.text.exposed)"),
    ]
    if body != nil { headers.append(TransportHeader("Content-Type", "application/json")) }
    let method: TransportRequest.Method =
      switch endpoint {
      case .notifications, .testNotification, .productExtension: .post
      case .consumption, .accountToken, .renewalExtension: .put
      case .statuses, .history, .payments, .transaction, .order, .testOutcome, .refunds, .productExtensionStatus: .get
      }
    return TransportRequest(
      method: method, url: base + path(endpoint, revision: revision), headers: headers, body: body ?? [],
      responseBodyLimit: answerLimit)
  }
}
