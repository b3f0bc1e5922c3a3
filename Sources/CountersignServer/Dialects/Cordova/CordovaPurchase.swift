import Entitlements

import struct FoundationEssentials.Date

/// A verdict as cordova-plugin-purchase reads it.
struct CordovaSuccess: Encodable {
  struct Contents: Encodable {
    struct Transaction: Encodable {
      var type: String
    }

    /// The subject of the question: a product, or the app itself.
    var id: String
    /// Always true: Apple is asked about the newest.
    var latest_receipt = true
    var transaction: Transaction
    var collection: [CordovaPurchase]
    var date: String
  }

  let ok = true
  var data: Contents

  init(id: String, type: String, date: Date, collection: [CordovaPurchase]) {
    data = Contents(id: id, transaction: Contents.Transaction(type: type), collection: collection, date: date.rfc3339)
  }
}

/// A refusal, or a trouble.
struct CordovaFailure: Encodable {
  /// The codes of the plugin that a server answers with.
  enum Code: Int, Encodable {
    case clientInvalid = 6_777_005
    /// The plugin asks again. It takes every 5xx for this code.
    case communication = 6_777_014
    case verificationFailed = 6_777_017
  }

  let ok = false
  var code: Code
  var message: String
}

/// One product that the user has or had (`VerifiedPurchase`). Dates are milliseconds since 1970.
struct CordovaPurchase: Encodable, Hashable {
  /// Whether the subscription will go on.
  enum RenewalIntent: String, Encodable {
    case renew = "Renew"
    case lapse = "Lapse"
  }

  /// The reason of the end. The plugin has finer ones, which Apple does not report.
  enum CancelationReason: String, Encodable {
    case notCanceled = ""
    case developer = "Developer"
    case replaced = "System.Replaced"
    case productUnavailable = "System.ProductUnavailable"
    case billingError = "System.BillingError"
    case deleted = "System.Deleted"
    case customer = "Customer"
    case technicalIssues = "Customer.TechnicalIssues"
    case priceIncrease = "Customer.PriceIncrease"
    case unknown = "Unknown"
  }

  /// The product.
  var id: String
  let platform = "ios-appstore"
  /// The same for all renewals.
  var purchaseId: String
  var transactionId: String
  /// The date of the oldest known transaction.
  var purchaseDate: Int64?
  var lastRenewalDate: Int64?
  /// The end of access: the plugin asks again a minute after it. Absent for life.
  var expiryDate: Int64?
  var isExpired = false
  /// Absent where Apple did not say, and for what does not renew.
  var renewalIntent: RenewalIntent?
  var isBillingRetryPeriod = false
  var isTrialPeriod: Bool
  var isIntroPeriod: Bool
  var cancelationReason = CancelationReason.notCanceled

  /// The products of one purchase: the present one, and those that it was changed from.
  ///
  /// - Parameter verdict: on this purchase.
  static func all(of evidence: SubscriptionEvidence, _ verdict: Entitlement, at now: Date) -> [CordovaPurchase] {
    let upgraded = evidence.upgradedTransactions
    func isOlder(_ one: Purchase, than other: Purchase) -> Bool {
      (one.purchaseDate ?? .distantPast, one.transactionID.rawValue)
        < (other.purchaseDate ?? .distantPast, other.transactionID.rawValue)
    }
    var newest = Dictionary(grouping: evidence.purchases, by: \.productID).compactMapValues { $0.max(by: isOlder) }
    // A period that only a renewal info names has no row yet.
    if let product = verdict.productID, newest[product] == nil, var row = evidence.purchases.max(by: isOlder) {
      row.productID = product
      newest[product] = row
    }
    let first = evidence.purchases.compactMap(\.purchaseDate).min()
    return newest.sorted { $0.key.rawValue < $1.key.rawValue }.map { product, row in
      var item = CordovaPurchase(row, since: first)
      if verdict.productID == product {
        item.take(verdict)
      } else {
        let isReplaced = verdict.productID != nil || upgraded.contains(row.transactionID)
        let end = row.cancellationDate ?? row.expiresDate
        item.isExpired = isReplaced || evidence.isAccountGone || end.map { $0 <= now } ?? false
        item.expiryDate = end?.millisecondsSince1970
        if isReplaced, row.cancellationDate == nil { item.cancelationReason = .replaced }
      }
      if row.cancellationDate != nil, item.isExpired {
        item.cancelationReason = row.cancellationReason == 1 ? .technicalIssues : .customer
      }
      return item
    }
  }

  private init(_ row: Purchase, since first: Date?) {
    id = row.productID.rawValue
    purchaseId = row.originalTransactionID.rawValue
    transactionId = row.transactionID.rawValue
    purchaseDate = (first ?? row.purchaseDate)?.millisecondsSince1970
    lastRenewalDate = row.expiresDate == nil ? nil : row.purchaseDate?.millisecondsSince1970
    isTrialPeriod = row.isTrial
    isIntroPeriod = row.isIntroductoryOffer
  }

  private mutating func take(_ verdict: Entitlement) {
    isExpired = !verdict.givesAccess
    expiryDate = (verdict.accessUntil ?? (isExpired ? verdict.expiresAt : nil))?.millisecondsSince1970
    renewalIntent = verdict.willRenew.map { $0 ? .renew : .lapse }
    isBillingRetryPeriod = verdict.reason == .billingGrace || verdict.reason == .billingRetry
    cancelationReason = CancelationReason(verdict.reason)
  }
}

extension CordovaPurchase.CancelationReason {
  init(_ reason: EntitlementReason) {
    self =
      switch reason {
      case .lifetime, .originalPurchase, .renewing, .billingGrace, .billingRetry, .renewalDue, .nonRenewing,
        .noPurchases, .noKnownProduct, .granted, .trial, .unproven:
        .notCanceled
      case .renewalOff, .voluntary, .refunded: .customer
      case .revoked, .unknown, .periodOver: .unknown
      case .billingError: .billingError
      case .priceIncrease: .priceIncrease
      case .productUnavailable: .productUnavailable
      case .accountGone: .deleted
      }
  }
}
