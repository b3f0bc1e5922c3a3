import Foundation
import Synchronization
import TestSupport

/// Plays the customers of RevenueCat's REST API, version 2: pages of two, one project, one key.
final class RevenueCatDouble: Sendable {
  static let project = "proj1ab2c3d4"
  static let key = "sk_of_the_project"
  private static let page = 2

  /// A customer; the other members are items of lists as JSON.
  struct Customer: Sendable {
    var id: String
    var subscriptions: [String] = []
    var purchases: [String] = []
    var aliases: [(id: String, createdAt: Int)] = []
  }

  /// The trouble that the double makes instead of an answer.
  enum Trouble: Sendable {
    case answer(TestAnswer)
    /// Ends the connection after half of the answer.
    case cut
  }

  private struct State {
    var troubles: [(path: String, trouble: Trouble)] = []
    var requests: [TestRequest] = []
  }

  private let customers: [Customer]
  private let state = Mutex(State())

  init(_ customers: [Customer]) { self.customers = customers }

  /// The next request whose path ends so, without its query, meets this trouble, once.
  func plan(_ trouble: Trouble, at path: String) { state.withLock { $0.troubles.append((path, trouble)) } }

  var requests: [TestRequest] { state.withLock { $0.requests } }
  /// Their paths within the project, without queries.
  var paths: [String] {
    requests.map { String($0.target.prefix { $0 != "?" }.dropFirst("/v2/projects/\(Self.project)".count)) }
  }

  func running<Result: Sendable>(_ body: (String) async throws -> Result) async throws -> Result {
    try await RawTLSServer.running(
      identity: nil,
      script: { connection in
        while let request = await connection.readRequest() {
          switch self.answer(request) {
          case .answer(let answer): try await connection.write(answer)
          case .cut:
            try await connection.write(Array(self.planned(request).bytes.dropLast(9)))
            return await connection.cut()
          }
        }
      }, during: { try await body($0.origin) })
  }

  private func answer(_ request: TestRequest) -> Trouble {
    let path = request.target.prefix { $0 != "?" }
    let trouble = state.withLock { state -> Trouble? in
      state.requests.append(request)
      guard let place = state.troubles.firstIndex(where: { path.hasSuffix($0.path) }) else { return nil }
      return state.troubles.remove(at: place).trouble
    }
    return trouble ?? .answer(planned(request))
  }

  private func planned(_ request: TestRequest) -> TestAnswer {
    guard request.header("Authorization") == "Bearer \(Self.key)" else {
      return .json(#"{"type":"authentication_error","message":"no"}"#, status: 401)
    }
    let parts = request.target.split(separator: "?", maxSplits: 1)
    let base = String(parts[0])
    let after = parts.count > 1 ? parts[1].firstMatch(of: /starting_after=([^&]*)/).map { String($0.1) } : nil
    let root = "/v2/projects/\(Self.project)/customers"
    let missing = TestAnswer.json(#"{"type":"resource_missing","message":"no such"}"#, status: 404)
    if base == root {
      return list(
        customers.map { ($0.id.percentEncodedForTests, #"{"object":"customer","id":"\#($0.id)"}"#) }, base, after)
    }
    guard base.hasPrefix(root + "/") else { return missing }
    let rest = base.dropFirst(root.count + 1).split(separator: "/")
    guard rest.count == 2, let customer = customers.first(where: { $0.id.percentEncodedForTests == rest[0] }) else {
      return missing
    }
    switch rest[1] {
    case "subscriptions": return list(customer.subscriptions.enumerated().map { ("s\($0)", $1) }, base, after)
    case "purchases": return list(customer.purchases.enumerated().map { ("p\($0)", $1) }, base, after)
    case "aliases":
      return list(
        customer.aliases.map {
          ($0.id.percentEncodedForTests, #"{"object":"customer.alias","id":"\#($0.id)","created_at":\#($0.createdAt)}"#)
        }, base, after)
    default: return missing
    }
  }

  private func list(_ items: [(id: String, json: String)], _ base: String, _ after: String?) -> TestAnswer {
    let begin = after.flatMap { id in items.firstIndex { $0.id == id } }.map { $0 + 1 } ?? 0
    let page = items.dropFirst(begin).prefix(Self.page)
    let next = begin + page.count < items.count ? page.last.map { #""\#(base)?starting_after=\#($0.id)""# } : nil
    return .json(
      #"{"object":"list","items":[\#(page.map(\.json).joined(separator: ","))],"next_page":\#(next ?? "null"),"#
        + #""url":"\#(base)"}"#)
  }

  // MARK: Items

  /// - Parameters:
  ///   - ends: milliseconds since 1970, or `null`.
  static func subscription(
    _ transaction: String, of product: String? = "prod1", at store: String = "app_store", starts: Int = 1,
    ends: String, access: Bool, gives entitlements: String...
  ) -> String {
    #"{"object":"subscription","id":"sub","product_id":\#(product.map { "\"\($0)\"" } ?? "null"),"store":"\#(store)","#
      + #""store_subscription_identifier":"\#(transaction)","starts_at":\#(starts),"ends_at":\#(ends),"#
      + #""gives_access":\#(access),"status":"active","environment":"production","entitlements":\#(list(entitlements))}"#
  }

  static func purchase(
    _ transaction: String, of product: String = "prod2", at store: String = "app_store", status: String = "owned",
    gives entitlements: String...
  ) -> String {
    #"{"object":"purchase","id":"purch","product_id":"\#(product)","store":"\#(store)","status":"\#(status)","#
      + #""store_purchase_identifier":"\#(transaction)","purchased_at":1,"entitlements":\#(list(entitlements))}"#
  }

  private static func list(_ entitlements: [String]) -> String {
    let items = entitlements.map { #"{"object":"entitlement","id":"entl","lookup_key":"\#($0)"}"# }
    return #"{"object":"list","items":[\#(items.joined(separator: ","))],"next_page":null,"url":"/v2/x"}"#
  }
}

extension String {
  /// Written apart from the product's own, so that a mistake there shows.
  fileprivate var percentEncodedForTests: String {
    let unreserved = CharacterSet(charactersIn: "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~")
    return addingPercentEncoding(withAllowedCharacters: unreserved) ?? self
  }
}
