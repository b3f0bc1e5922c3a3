import Entitlements
import JSON

import struct FoundationEssentials.Date

/// The body of an answer, decoded. Its signed parts are still text: nothing here is proven.
///
/// A missing list never counts as empty: it could hide a refund.
enum ServerAPIResponse: Sendable {
  case statuses(StatusesResponse)
  case history(HistoryResponse)
  case payments(HistoryResponse)
  case transaction(signedTransaction: String)
  case order(OrderResponse)
  case refunds(RefundsResponse)
  case unsigned(UnsignedAnswer)

  init(_ body: JSONValue, of endpoint: ServerAPIEndpoint) throws(JSONError) {
    switch endpoint {
    case .statuses: self = .statuses(try StatusesResponse(body))
    case .history: self = .history(try HistoryResponse(body))
    case .payments: self = .payments(try HistoryResponse(body))
    case .transaction: self = .transaction(signedTransaction: try body.required("signedTransactionInfo"))
    case .order: self = .order(try OrderResponse(body))
    case .refunds: self = .refunds(try RefundsResponse(body))
    case .notifications: self = .unsigned(.notifications(try NotificationPage(body)))
    case .testNotification: self = .unsigned(.testToken(try body.required("testNotificationToken")))
    case .testOutcome:
      self = .unsigned(.testOutcome(try body.objects("sendAttempts")?.last?.text("sendAttemptResult")))
    case .renewalExtension:
      // An extension that failed has an error code of its own.
      guard try body.flag("success") != false else { throw body.unreadable("success") }
      self = .unsigned(.extended(expiresAt: try body.requiredMoment("effectiveDate")))
    case .productExtensionStatus: self = .unsigned(.extensionStatus(try ProductExtensionStatus(body)))
    case .productExtension, .consumption, .accountToken: self = .unsigned(.accepted)
    }
  }
}

/// An answer that Apple does not sign as a whole. The notifications of a page are signed each, and not verified yet.
enum UnsignedAnswer: Sendable {
  case notifications(NotificationPage)
  case testToken(String)
  /// https://developer.apple.com/documentation/appstoreserverapi/checktestnotificationresponse
  case testOutcome(String?)
  /// - Parameter expiresAt: the new end of the period.
  case extended(expiresAt: Date)
  case extensionStatus(ProductExtensionStatus)
  /// Apple took what was sent.
  case accepted
}

/// https://developer.apple.com/documentation/appstoreserverapi/orderlookupresponse
struct OrderResponse: Hashable, Sendable {
  /// Empty if Apple has no such order of this app.
  var signedTransactions: [String]

  init(_ body: JSONValue) throws(JSONError) {
    switch try body.integer("status") {
    case 0:
      signedTransactions = try body.texts("signedTransactions")
      guard !signedTransactions.isEmpty else { throw body.unreadable("signedTransactions") }
    case 1: signedTransactions = []
    case nil: throw body.missing("status")
    default: throw body.unreadable("status")
    }
  }
}

/// A page of https://developer.apple.com/documentation/appstoreserverapi/refundhistoryresponse
struct RefundsResponse: Hashable, Sendable {
  var signedTransactions: [String]
  /// The start of the next page; `nil` on the last one.
  var nextRevision: String?

  init(_ body: JSONValue) throws(JSONError) {
    signedTransactions = try body.texts("signedTransactions")
    nextRevision = try body.nextRevision()
  }
}

extension JSONValue {
  /// The longest revision. Apple's have some dozens of characters.
  private static let longestRevision = 1024

  /// The start of a history's next page; `nil` on the last one.
  fileprivate func nextRevision() throws(JSONError) -> String? {
    // A missing `hasMore` is not `false`: the next page may have a refund.
    guard let hasMore = try flag("hasMore") else { throw missing("hasMore") }
    let revision = try text("revision")
    guard hasMore else { return nil }
    guard let revision else { throw missing("revision") }
    guard revision.utf8.count <= Self.longestRevision else { throw unreadable("revision") }
    return revision
  }

  fileprivate func texts(_ member: String) throws(JSONError) -> [String] {
    guard let list = self[member] else { throw missing(member) }
    guard list.isArray else { throw unreadable(member) }
    var texts: [String] = []
    for element in list.elements {
      guard case .string(let text) = element.kind else { throw .unreadable(path: element.path) }
      texts.append(text)
    }
    return texts
  }
}

/// The members that every answer about a customer has.
struct ServerAPIResponseHead: Hashable, Sendable {
  /// As sent: `Production`, `Sandbox`.
  var environmentName: String
  var bundleID: BundleID
  /// Missing in the sandbox.
  var appAppleID: Int64?

  var environment: StoreEnvironment? { SignedEnvironment(name: environmentName).store }

  init(_ body: JSONValue) throws(JSONError) {
    environmentName = try body.required("environment")
    bundleID = BundleID(try body.required("bundleId"))
    appAppleID = try body.integer("appAppleId")
  }
}

/// https://developer.apple.com/documentation/appstoreserverapi/statusresponse
struct StatusesResponse: Hashable, Sendable {
  /// The last transaction of one subscription.
  struct Item: Hashable, Sendable {
    var groupID: SubscriptionGroupID?
    var originalTransactionID: OriginalTransactionID
    var signedTransaction: String
    var signedRenewal: String?
    /// `status` as sent; `nil` also for a number unknown to this version.
    var status: RenewalInfo.Status?
    /// The place in the body, for an error.
    var path: String
  }

  var head: ServerAPIResponseHead
  /// The items of all groups: a customer may have several subscriptions, also in one group.
  var items: [Item]

  init(_ body: JSONValue) throws(JSONError) {
    head = try ServerAPIResponseHead(body)
    guard let groups = try body.objects("data") else { throw body.missing("data") }
    var items: [Item] = []
    for group in groups {
      let groupID = try group.text("subscriptionGroupIdentifier").map { SubscriptionGroupID($0) }
      guard let elements = try group.objects("lastTransactions") else { throw group.missing("lastTransactions") }
      for element in elements {
        items.append(
          Item(
            groupID: groupID,
            originalTransactionID: OriginalTransactionID(try element.required("originalTransactionId")),
            signedTransaction: try element.required("signedTransactionInfo"),
            signedRenewal: try element.text("signedRenewalInfo"),
            status: try element.code("status").flatMap(RenewalInfo.Status.init), path: element.path))
      }
    }
    self.items = items
  }
}

/// A page of https://developer.apple.com/documentation/appstoreserverapi/historyresponse
struct HistoryResponse: Hashable, Sendable {
  var head: ServerAPIResponseHead
  var signedTransactions: [String]
  /// The start of the next page; `nil` on the last one.
  var nextRevision: String?

  init(_ body: JSONValue) throws(JSONError) {
    head = try ServerAPIResponseHead(body)
    signedTransactions = try body.texts("signedTransactions")
    nextRevision = try body.nextRevision()
  }
}
