import COpenSSL
package import Entitlements
package import HTTPTransport
import JSON

/// A server notification of version 1: not signed, so that all it can do is to say that there is news.
///
/// https://developer.apple.com/documentation/appstoreservernotifications/responsebodyv1
package struct NotificationV1: Hashable, Sendable {
  /// `notification_type` as sent.
  package var type: String
  /// `environment` as sent: `PROD` or `Sandbox`.
  package var environmentName: String?
  package var bundleID: BundleID?
  /// Every purchase that it names, each once.
  package var originalTransactionIDs: [OriginalTransactionID]
  /// `password`: the shared secret, and the only sign that Apple sent it.
  private var password: Secret?

  /// More purchases than a customer has; the rest are not looked at.
  static let purchaseLimit = 1_000

  init(_ root: JSONValue) throws(JSONError) {
    guard let type = try root.text("notification_type") else { throw root.missing("notification_type") }
    self.type = type
    environmentName = try root.text("environment")
    bundleID = try root.text("bid").map { BundleID($0) }
    password = try root.text("password").map { Secret($0) }
    let unified = try root.object("unified_receipt")
    var elements = [root]
    elements += try root.objects("latest_receipt_info") ?? []
    elements += try root.objects("latest_expired_receipt_info") ?? []
    elements += try unified?.objects("latest_receipt_info") ?? []
    elements += try unified?.objects("pending_renewal_info") ?? []
    var ids: [OriginalTransactionID] = []
    var seen: Set<OriginalTransactionID> = []
    for element in elements.prefix(Self.purchaseLimit) {
      guard let id = try element.text("original_transaction_id").map({ OriginalTransactionID($0) }),
        seen.insert(id).inserted
      else { continue }
      ids.append(id)
    }
    originalTransactionIDs = ids
  }

  /// Whether it comes with our shared secret.
  ///
  /// Digests are compared, which are of one length, in constant time: the time taken tells nothing about which part of a
  /// guess was right.
  package func hasPassword(_ secret: Secret) -> Bool {
    guard let password else { return false }
    let ours = Array(ReceiptFingerprint(of: Array(secret.exposed.utf8)).hex.utf8)
    let theirs = Array(ReceiptFingerprint(of: Array(password.exposed.utf8)).hex.utf8)
    return ours.count == theirs.count && CRYPTO_memcmp(ours, theirs, ours.count) == 0
  }
}
