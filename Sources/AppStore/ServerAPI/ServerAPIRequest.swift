import HTTPTransport

/// An endpoint of the App Store Server API.
package enum ServerAPIEndpoint: String, Hashable, Sendable, CaseIterable {
  /// Get All Subscription Statuses: every subscription of the customer who made a transaction.
  case statuses
  /// Get Transaction History: one-time purchases only.
  case history
  /// Get Transaction Info: one transaction.
  case transaction
  /// Look Up Order ID: the transactions of one order.
  case order
}

/// A request with an ID that is proven to be digits, or letters and digits: it is part of the path, where a slash or a
/// dot would ask for something else in our name.
struct ServerAPIRequest: Sendable {
  private static let longestID = 32

  let id: String

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

  /// - Parameter revision: the start of the next page of the history, as Apple named it.
  func path(_ endpoint: ServerAPIEndpoint, revision: String? = nil) -> String {
    switch endpoint {
    case .statuses: "/inApps/v1/subscriptions/\(id)"
    case .transaction: "/inApps/v1/transactions/\(id)"
    case .order: "/inApps/v1/lookup/\(id)"
    case .history:
      // Subscriptions are in the statuses, and consumables are used up.
      "/inApps/v2/history/\(id)?sort=ASCENDING&productType=NON_CONSUMABLE&productType=NON_RENEWABLE"
        + (revision.map { "&revision=\($0.percentEncoded)" } ?? "")
    }
  }

  func transportRequest(
    to origin: String, _ endpoint: ServerAPIEndpoint, revision: String?, token: DeveloperToken, answerLimit: Int
  ) -> TransportRequest {
    let base = origin.hasSuffix("/") ? String(origin.dropLast()) : origin
    return TransportRequest(
      method: .get, url: base + path(endpoint, revision: revision),
      headers: [
        TransportHeader("Accept", "application/json"),
        TransportHeader("Authorization", "Bearer \(token.text.exposed)"),
      ],
      responseBodyLimit: answerLimit)
  }
}
