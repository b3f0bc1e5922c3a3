import Cryptography
package import Entitlements
package import HTTPTransport
import JSON

/// A server notification of version 1. It is not signed, and so only a hint that there is news.
///
/// https://developer.apple.com/documentation/appstoreservernotifications/responsebodyv1
package struct NotificationV1: Hashable, Sendable {
  package var type: String
  package var bundleID: BundleID?
  /// The purchases in it, each once.
  package var originalTransactionIDs: [OriginalTransactionID]
  /// The transactions without an original ID, each once: each may be any transaction of its purchase.
  package var transactionIDs: [TransactionID]
  /// `password`: the shared secret, and the only proof of its origin.
  private var password: Secret?

  /// The most elements that are read: more purchases than a customer has.
  static let purchaseLimit = 1_000

  init(_ root: JSONValue) throws(JSONError) {
    guard let type = try root.text("notification_type") else { throw root.missing("notification_type") }
    self.type = type
    bundleID = try root.text("bid").map { BundleID($0) }
    password = try root.text("password").map { Secret($0) }
    // An unreadable member is left out: a hint needs no more than one ID.
    let unified = try? root.object("unified_receipt")
    var elements = [root]
    for (part, name) in [
      (root, "latest_receipt_info"), (root, "latest_expired_receipt_info"), (unified, "latest_receipt_info"),
      (unified, "pending_renewal_info"),
    ] {
      guard let rows = part?[name] else { continue }
      elements += (rows.isArray ? rows.elements : [rows]).filter(\.isObject)
    }
    originalTransactionIDs = []
    transactionIDs = []
    var seen: Set<String> = []
    for element in elements.prefix(Self.purchaseLimit) {
      if let id = try? element.text("original_transaction_id") {
        if seen.insert(id).inserted { originalTransactionIDs.append(OriginalTransactionID(id)) }
      } else if let id = try? element.text("transaction_id"), seen.insert(id).inserted {
        transactionIDs.append(TransactionID(id))
      }
    }
  }

  /// Whether the password is our shared secret.
  ///
  /// Digests of equal length are compared in constant time: the time says nothing about which part of a guess was
  /// right.
  package func hasPassword(_ secret: Secret) -> Bool {
    guard let password else { return false }
    return isEqualInConstantTime(
      SHA256Digest(of: secret.exposed.utf8).bytes, SHA256Digest(of: password.exposed.utf8).bytes)
  }
}
