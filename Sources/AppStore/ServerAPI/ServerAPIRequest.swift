import HTTPTransport

/// What is asked of the App Store Server API.
package enum ServerAPIEndpoint: String, Hashable, Sendable, CaseIterable {
  /// Get All Subscription Statuses: every subscription of the customer who made a transaction.
  case statuses
  /// Get Transaction History: here only what is bought once.
  case history
  /// Get Transaction Info: one transaction.
  case transaction
  /// Look Up Order ID: the transactions of one order.
  case order
}

/// One request, whose ID is proven to be digits, or letters and digits, only: it stands in the path, and a slash or a dot in
/// it would ask for something else in our name.
struct ServerAPIRequest: Sendable {
  private static let longestID = 32

  let id: String

  /// - Returns: `nil` for what cannot be one of Apple's IDs.
  init?(id: String) {
    guard (1...Self.longestID).contains(id.utf8.count), id.utf8.allSatisfy({ (0x30...0x39).contains($0) }) else {
      return nil
    }
    self.id = id
  }

  /// - Parameter order: what Apple writes to the customer: `MXXXXXXXXX`.
  /// - Returns: `nil` for what cannot be the ID of an order.
  init?(order: String) {
    let isPlain = order.utf8.allSatisfy { byte in
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"): true
      default: false
      }
    }
    guard (1...Self.longestID).contains(order.utf8.count), isPlain else { return nil }
    id = order
  }

  /// - Parameter revision: where the next page of the history begins, as Apple named it.
  func path(_ endpoint: ServerAPIEndpoint, revision: String? = nil) -> String {
    switch endpoint {
    case .statuses: "/inApps/v1/subscriptions/\(id)"
    case .transaction: "/inApps/v1/transactions/\(id)"
    case .order: "/inApps/v1/lookup/\(id)"
    case .history:
      // Subscriptions are in the statuses, and consumables are used up.
      "/inApps/v2/history/\(id)?sort=ASCENDING&productType=NON_CONSUMABLE&productType=NON_RENEWABLE"
        + (revision.map { "&revision=\(Self.percentEncoded($0))" } ?? "")
    }
  }

  func transportRequest(
    to origin: String, _ endpoint: ServerAPIEndpoint, revision: String?, token: ServerAPIToken, answerLimit: Int
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

  /// All but what RFC 3986, section 2.3, calls unreserved.
  private static func percentEncoded(_ text: String) -> String {
    let digits = Array("0123456789ABCDEF".utf8)
    var bytes: [UInt8] = []
    for byte in text.utf8 {
      switch byte {
      case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
        UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
        UInt8(ascii: "~"):
        bytes.append(byte)
      default:
        bytes += [UInt8(ascii: "%"), digits[Int(byte >> 4)], digits[Int(byte & 15)]]
      }
    }
    return String(decoding: bytes, as: UTF8.self)
  }
}
