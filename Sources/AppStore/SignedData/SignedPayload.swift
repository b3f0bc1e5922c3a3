import Entitlements
import JSON

import struct FoundationEssentials.Date

/// The payload of a JWS of Apple's. No member names its kind; the members that only one kind has show it.
enum SignedPayload: Hashable, Sendable {
  case transaction(SignedTransaction)
  case renewalInfo(SignedRenewalInfo)
  case notification(SignedNotification)
  case appTransaction(SignedAppTransaction)
  /// An unknown kind, or an AppTransaction that lacks something.
  case other(Kind, OtherSignedPayload)

  enum Kind: String, Hashable, Sendable, CaseIterable {
    case transaction = "signed_transaction"
    case renewalInfo = "signed_renewal_info"
    case notification = "signed_notification"
    case appTransaction = "signed_app_transaction"
    case unknown = "signed_data"

    var words: String {
      switch self {
      case .transaction: "a signed transaction"
      case .renewalInfo: "a signed renewal info"
      case .notification: "a signed server notification"
      case .appTransaction: "a signed app transaction (the download of the app)"
      case .unknown: "signed data of a kind that is not known here"
      }
    }

    init(_ payload: JSONValue) {
      func hasAny(_ keys: String...) -> Bool { keys.contains { payload[$0] != nil } }
      self =
        if hasAny("notificationType", "notificationUUID") {
          .notification
        } else if hasAny("transactionId", "purchaseDate") {
          .transaction
        } else if hasAny(
          "autoRenewStatus", "autoRenewProductId", "isInBillingRetryPeriod", "recentSubscriptionStartDate",
          "renewalDate", "gracePeriodExpiresDate", "expirationIntent")
        {
          .renewalInfo
        } else if hasAny("receiptType", "applicationVersion", "originalApplicationVersion", "receiptCreationDate") {
          .appTransaction
        } else {
          .unknown
        }
    }
  }

  var kind: Kind {
    switch self {
    case .transaction: .transaction
    case .renewalInfo: .renewalInfo
    case .notification: .notification
    case .appTransaction: .appTransaction
    case .other(let kind, _): kind
    }
  }

  init(_ payload: JSONValue) throws(JSONError) {
    switch Kind(payload) {
    case .transaction: self = .transaction(try SignedTransaction(payload))
    case .renewalInfo: self = .renewalInfo(try SignedRenewalInfo(payload))
    case .notification: self = .notification(try SignedNotification(payload))
    case .appTransaction:
      // One that lacks something is refused by its name.
      if let transaction = try? SignedAppTransaction(payload) {
        self = .appTransaction(transaction)
      } else {
        self = .other(.appTransaction, try OtherSignedPayload(payload))
      }
    case let kind: self = .other(kind, try OtherSignedPayload(payload))
    }
  }

  /// - Throws: `UndecodableReceipt`, which names the missing or unreadable member and quotes nothing.
  init(_ jws: CompactJWS) throws(UndecodableReceipt) {
    // Known even if the rest is unreadable.
    var kind = Kind.unknown
    do throws(JSONError) {
      self = try JSONReader.readAtOnce(jws.payload, largeIntegers: .text) { payload throws(JSONError) in
        kind = Kind(payload)
        return try SignedPayload(payload)
      }
    } catch {
      switch error {
      case .syntax: throw .damagedJWS("its payload is not a JSON object")
      case .tooLarge: throw .damagedJWS("its payload is larger than anything that Apple signs")
      case .missing(let path): throw .damagedJWS("it is \(kind.words) without \(path)", kind)
      case .unreadable(let path): throw .damagedJWS("it is \(kind.words), and its \(path) cannot be read", kind)
      }
    }
  }

  /// The error for a sender of this kind where another was wanted.
  func mistake(wanted: Kind) -> UndecodableReceipt {
    let advice: String =
      switch wanted {
      case .transaction: "send the jwsRepresentation of the verified Transaction"
      case .renewalInfo: "give the signedRenewalInfo"
      case .notification: "give the signedPayload of the notification"
      case .appTransaction, .unknown: "give another"
      }
    // The kinds have the same names there.
    return UndecodableReceipt(
      UndecodableReceipt.Kind(rawValue: kind.rawValue) ?? .signedData,
      "This is \(kind.words), not \(wanted.words); \(advice).")
  }
}

/// Members that signed data of every kind may have.
struct OtherSignedPayload: Hashable, Sendable {
  var bundleID: BundleID?
  var environmentName: String?
  var signedDate: Date?

  init(_ payload: JSONValue) throws(JSONError) {
    bundleID = try payload.text("bundleId").map { BundleID($0) }
    // An app transaction has other names for these.
    let receiptType = try payload.text("receiptType")
    let creationDate = try payload.moment("receiptCreationDate")
    environmentName = try payload.text("environment") ?? receiptType
    signedDate = try payload.moment("signedDate") ?? creationDate
  }
}
