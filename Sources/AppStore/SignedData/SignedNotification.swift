package import Entitlements
import JSON

package import struct FoundationEssentials.Date

/// The payload of a server notification (version 2), decoded. What it says is **not yet proven**: `SignedDataVerifier`
/// does that, for it and for what is signed inside.
///
/// https://developer.apple.com/documentation/appstoreservernotifications/responsebodyv2decodedpayload
package struct SignedNotification: Hashable, Sendable {
  /// What it is about. Apple sends exactly one.
  package enum Subject: String, Hashable, Sendable, CaseIterable {
    /// One customer's purchase.
    case data
    /// The end of an extension of many subscriptions.
    case summary
    case externalPurchaseToken
    case appData
    /// None of these: something that Apple has added.
    case other
  }

  /// `notificationUUID`: the same whenever Apple sends this notification again.
  package var uuid: String
  /// `notificationType` as sent.
  package var type: String
  package var subtype: String?
  package var version: String?
  /// When it was signed. Notifications of 2022 do not say.
  package var signedDate: Date?
  package var subject: Subject
  package var bundleID: BundleID?
  /// Apple's number of the app; absent in the sandbox before 2025.
  package var appAppleID: Int64?
  /// `environment` as sent.
  package var environmentName: String?
  /// `data.status` as sent: 1 active, 2 expired, 3 billing retry, 4 billing grace period, 5 revoked.
  package var status: Int?
  package var consumptionRequestReason: String?
  /// A signed transaction, itself a JWS.
  package var signedTransactionInfo: String?
  /// A signed renewal info, itself a JWS.
  package var signedRenewalInfo: String?

  package var signedEnvironment: SignedEnvironment? { environmentName.map { SignedEnvironment(name: $0) } }

  /// Apple's store; `nil` where none is named, for Xcode's, for local testing, and for a name that Apple has added.
  package var environment: StoreEnvironment? { signedEnvironment?.store }

  /// - Throws: `JSONError` without a type or a UUID, with two subjects, and for a value that is there and cannot be read.
  init(_ payload: JSONValue) throws(JSONError) {
    uuid = try payload.required("notificationUUID")
    type = try payload.required("notificationType")
    subtype = try payload.text("subtype")
    version = try payload.text("version")
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
    consumptionRequestReason = try body.text("consumptionRequestReason")
    signedTransactionInfo = try body.text("signedTransactionInfo")
    signedRenewalInfo = try body.text("signedRenewalInfo")
  }
}
