package import Entitlements
import JSON

package import struct FoundationEssentials.Date

/// The payload of a server notification (version 2), decoded. Neither it nor its signed contents are **proven yet**:
/// see `SignedDataVerifier`.
///
/// https://developer.apple.com/documentation/appstoreservernotifications/responsebodyv2decodedpayload
package struct SignedNotification: Hashable, Sendable {
  /// The subject. Apple sends exactly one.
  package enum Subject: String, Hashable, Sendable, CaseIterable {
    /// One customer's purchase.
    case data
    /// The end of an extension of many subscriptions.
    case summary
    case externalPurchaseToken, appData
    /// An unknown subject.
    case other
  }

  /// `notificationUUID`: the same each time Apple sends this notification; `nil` where it has none.
  package var uuid: String?
  package var type: String
  package var subtype: String?
  /// The date of the signature; missing in 2022.
  package var signedDate: Date?
  var subject: Subject
  package var bundleID: BundleID?
  /// Apple's number of the app; absent in the sandbox before 2025.
  package var appAppleID: Int64?
  var environmentName: String?
  /// `data.status` as sent: 1 active, 2 expired, 3 billing retry, 4 billing grace period, 5 revoked.
  package var status: Int?
  package var signedTransactionInfo: String?
  var signedRenewalInfo: String?
  package var consumptionRequestReason: String?
  /// A signed app transaction, itself a JWS: of a customer whose parent took the consent back.
  package var signedAppTransactionInfo: String?
  package var externalPurchase: ExternalPurchase?
  package var summary: Summary?

  /// https://developer.apple.com/documentation/appstoreservernotifications/externalpurchasetoken
  package struct ExternalPurchase: Hashable, Sendable {
    package var id: String?
    package var tokenType: String?
    package var createdAt: Date?
    package var expiresAt: Date?
  }

  /// https://developer.apple.com/documentation/appstoreservernotifications/summary
  package struct Summary: Hashable, Sendable {
    package var requestID: String?
    package var productID: String?
    package var storefronts: [String]
    package var succeeded: Int64?
    package var failed: Int64?
  }

  /// A notification whose signature is not checked: for an order and the log alone.
  package static func claimed(in text: String) -> SignedNotification? {
    guard let jws = try? CompactJWS(Array(text.utf8)), case .notification(let notification)? = try? SignedPayload(jws)
    else { return nil }
    return notification
  }

  /// - Throws: `JSONError` without a type, with two subjects, and for an unreadable value.
  init(_ payload: JSONValue) throws(JSONError) {
    type = try payload.required("notificationType")
    // An unreadable one is left out: the signed parts decide, and Apple does not repeat a notification.
    uuid = try? payload.text("notificationUUID")
    subtype = try? payload.text("subtype")
    signedDate = try? payload.moment("signedDate")

    let subjects = Subject.allCases.filter { $0 != .other && payload[$0.rawValue] != nil }
    guard subjects.count <= 1 else { throw payload.unreadable(subjects[1].rawValue) }
    subject = subjects.first ?? .other
    guard let body = try payload.object(subject.rawValue) else { return }
    bundleID = try body.text("bundleId").map { BundleID($0) }
    appAppleID = try? body.number("appAppleId")
    environmentName = try body.text("environment")
    switch subject {
    case .data:
      status = try? body.code("status")
      signedTransactionInfo = try body.text("signedTransactionInfo")
      signedRenewalInfo = try body.text("signedRenewalInfo")
      // A member that decides nothing refuses no notification.
      consumptionRequestReason = try? body.text("consumptionRequestReason")
    case .appData: signedAppTransactionInfo = try body.text("signedAppTransactionInfo")
    case .externalPurchaseToken:
      externalPurchase = ExternalPurchase(
        id: try? body.text("externalPurchaseId"), tokenType: try? body.text("tokenType"),
        createdAt: try? body.moment("tokenCreationDate"), expiresAt: try? body.moment("tokenExpirationDate"))
    case .summary:
      summary = Summary(
        requestID: try? body.text("requestIdentifier"), productID: try? body.text("productId"),
        storefronts: (body["storefrontCountryCodes"]?.elements ?? []).compactMap(\.string),
        succeeded: try? body.number("succeededCount"), failed: try? body.number("failedCount"))
    case .other: break
    }
  }
}
