package import Entitlements
import JSON

package import struct FoundationEssentials.Date

/// A question about the notifications of one app.
///
/// https://developer.apple.com/documentation/appstoreserverapi/notificationhistoryrequest
package struct NotificationQuery: Hashable, Sendable {
  /// How far back Apple keeps them.
  package static let kept: [StoreEnvironment: Duration] = [
    .production: .seconds(180 * 86_400), .sandbox: .seconds(30 * 86_400),
  ]

  package var from: Date
  package var to: Date
  /// Whether those are left out that Apple knows to be delivered.
  package var onlyFailures: Bool
  /// The start of the next page, as Apple named it.
  package var token: String?

  package init(from: Date, to: Date, onlyFailures: Bool, token: String? = nil) {
    self.from = from
    self.to = to
    self.onlyFailures = onlyFailures
    self.token = token
  }
}

/// A page of notifications, each signed and not yet verified.
///
/// https://developer.apple.com/documentation/appstoreserverapi/notificationhistoryresponse
package struct NotificationPage: Hashable, Sendable {
  package var signedPayloads: [String]
  /// The start of the next page; `nil` on the last one.
  package var nextToken: String?

  private static let longestToken = 1024

  init(_ body: JSONValue) throws(JSONError) {
    guard let items = try body.objects("notificationHistory") else { throw body.missing("notificationHistory") }
    var payloads: [String] = []
    for item in items { payloads.append(try item.required("signedPayload")) }
    signedPayloads = payloads
    // A missing `hasMore` is not `false`: the next page may have a refund.
    guard let hasMore = try body.flag("hasMore") else { throw body.missing("hasMore") }
    guard hasMore else {
      nextToken = nil
      return
    }
    let token: String = try body.required("paginationToken")
    guard token.utf8.count <= Self.longestToken else { throw body.unreadable("paginationToken") }
    nextToken = token
  }
}
