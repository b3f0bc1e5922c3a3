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
  /// `notificationType` as sent.
  package var type: String
  package var subtype: String?
  /// The date of the signature; missing in 2022.
  package var signedDate: Date?
  var subject: Subject
  package var bundleID: BundleID?
  /// Apple's number of the app; absent in the sandbox before 2025.
  package var appAppleID: Int64?
  /// `environment` as sent.
  var environmentName: String?
  /// `data.status` as sent: 1 active, 2 expired, 3 billing retry, 4 billing grace period, 5 revoked.
  package var status: Int?
  /// A signed transaction, itself a JWS.
  package var signedTransactionInfo: String?
  /// A signed renewal info, itself a JWS.
  var signedRenewalInfo: String?

  /// - Throws: `JSONError` without a type, with two subjects, and for an unreadable value.
  init(_ payload: JSONValue) throws(JSONError) {
    uuid = try payload.text("notificationUUID")
    type = try payload.required("notificationType")
    subtype = try payload.text("subtype")
    signedDate = try payload.moment("signedDate")

    let subjects = Subject.allCases.filter { $0 != .other && payload[$0.rawValue] != nil }
    guard subjects.count <= 1 else { throw payload.unreadable(subjects[1].rawValue) }
    subject = subjects.first ?? .other
    guard let body = try payload.object(subject.rawValue) else { return }
    bundleID = try body.text("bundleId").map { BundleID($0) }
    appAppleID = try body.number("appAppleId")
    environmentName = try body.text("environment")
    guard subject == .data else { return }
    status = try body.code("status")
    signedTransactionInfo = try body.text("signedTransactionInfo")
    signedRenewalInfo = try body.text("signedRenewalInfo")
  }
}
