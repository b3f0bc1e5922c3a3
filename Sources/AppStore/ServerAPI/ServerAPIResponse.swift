import Entitlements
import JSON

/// The body of an answer, decoded. What is signed in it is still text: nothing here is proven.
///
/// Nothing that has to be there counts as empty when it is missing: a list that is not read would hide a refund.
enum ServerAPIResponse: Sendable {
  case statuses(StatusesResponse)
  case history(HistoryResponse)
  case transaction(signedTransaction: String)
  case order(OrderResponse)

  init(_ body: JSONValue, of endpoint: ServerAPIEndpoint) throws(JSONError) {
    switch endpoint {
    case .statuses: self = .statuses(try StatusesResponse(body))
    case .history: self = .history(try HistoryResponse(body))
    case .transaction: self = .transaction(signedTransaction: try body.required("signedTransactionInfo"))
    case .order: self = .order(try OrderResponse(body))
    }
  }
}

/// https://developer.apple.com/documentation/appstoreserverapi/orderlookupresponse
struct OrderResponse: Hashable, Sendable {
  /// Empty where Apple has no such order of this app.
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

extension JSONValue {
  /// A list of texts that has to be there.
  fileprivate func texts(_ member: String) throws(JSONError) -> [String] {
    guard let list = self[member] else { throw missing(member) }
    guard list.isArray else { throw unreadable(member) }
    var texts: [String] = []
    for element in list.elements {
      guard case .string(let text) = element.kind else { throw .unreadable(path: element.path.text) }
      texts.append(text)
    }
    return texts
  }
}

/// What every answer about a customer says of itself.
struct ServerAPIResponseHead: Hashable, Sendable {
  /// As sent: `Production`, `Sandbox`.
  var environmentName: String
  var bundleID: BundleID
  /// Not there in the sandbox.
  var appAppleID: Int64?

  var environment: StoreEnvironment? {
    switch environmentName {
    case "Production": .production
    case "Sandbox": .sandbox
    default: nil
    }
  }

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
    /// 1 active, 2 expired, 3 billing retry, 4 billing grace period, 5 revoked; as sent.
    var status: Int?
    var signedTransaction: String
    var signedRenewal: String?
    /// Where it stands, for an error.
    var path: String
  }

  var head: ServerAPIResponseHead
  /// Of all groups: the customer may have subscriptions in several, and in one group more than one.
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
            status: try element.state("status"), signedTransaction: try element.required("signedTransactionInfo"),
            signedRenewal: try element.text("signedRenewalInfo"), path: element.path.text))
      }
    }
    self.items = items
  }
}

/// A page of https://developer.apple.com/documentation/appstoreserverapi/historyresponse
struct HistoryResponse: Hashable, Sendable {
  /// A revision is some dozens of characters; more is not carried along.
  private static let longestRevision = 1024

  var head: ServerAPIResponseHead
  var signedTransactions: [String]
  /// Where the next page begins; `nil` on the last page.
  var nextRevision: String?

  init(_ body: JSONValue) throws(JSONError) {
    head = try ServerAPIResponseHead(body)
    signedTransactions = try body.texts("signedTransactions")
    // Not said is not "no more": what is on the pages to come may be a refund.
    guard let hasMore = try body.flag("hasMore") else { throw body.missing("hasMore") }
    let revision = try body.text("revision")
    if hasMore {
      guard let revision else { throw body.missing("revision") }
      guard revision.utf8.count <= Self.longestRevision else { throw body.unreadable("revision") }
    }
    nextRevision = hasMore ? revision : nil
  }
}
