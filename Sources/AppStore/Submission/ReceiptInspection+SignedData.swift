import Entitlements
import JSON

extension ReceiptInspection.Report {
  /// What the payload says. Nothing vouches for it yet.
  init(_ payload: SignedPayload) {
    self.init(kind: payload.kind.rawValue, authentic: false)
    switch payload {
    case .transaction(let transaction):
      bundleID = transaction.bundleID.rawValue
      environment = transaction.environmentName?.lowercased()
      createdAt = ReceiptDate.format(transaction.signedDate)
      transactions = [Row(transaction)]
    case .renewalInfo(let info):
      environment = info.environmentName?.lowercased()
      createdAt = ReceiptDate.format(info.signedDate)
      renewals = [Renewal(info)]
    case .notification(let notification):
      bundleID = notification.bundleID?.rawValue
      environment = notification.environmentName?.lowercased()
      createdAt = notification.signedDate.map(ReceiptDate.format)
      type = notification.type
      subtype = notification.subtype
      uuid = notification.uuid
      status = notification.status
      appAppleID = notification.appAppleID
    case .other(_, let members):
      bundleID = members.bundleID?.rawValue
      environment = members.environmentName?.lowercased()
      createdAt = members.signedDate.map(ReceiptDate.format)
    }
  }

  /// The transaction and the renewal info that a notification carries, as far as they can be read.
  mutating func add(partsOf notification: SignedNotification) {
    for text in [notification.signedTransactionInfo, notification.signedRenewalInfo].compactMap({ $0 }) {
      guard let payload = try? SignedPayload(CompactJWS(Array(text.utf8))) else { continue }
      let part = Self(payload)
      transactions += part.transactions
      renewals += part.renewals
      bundleID = bundleID ?? part.bundleID
      environment = environment ?? part.environment
      createdAt = createdAt ?? part.createdAt
    }
  }

  /// A notification of version 1. Its `password` is the shared secret, and is not looked at.
  ///
  /// https://developer.apple.com/documentation/appstoreservernotifications/responsebodyv1
  mutating func addNotificationV1(_ json: JSONValue) {
    problem =
      "This is a server notification of version 1, which is not signed: only its shared secret vouches for it. Take it as "
      + "a hint, and ask Apple about its latest receipt."
    do throws(JSONError) {
      type = try json.text("notification_type")
      let receipt = try json.object("unified_receipt")
      bundleID = try json.text("bid")
      let name = try json.text("environment") ?? ""
      environment = name.isEmpty ? nil : name == "PROD" ? "production" : name.lowercased()
      status = try receipt?.code("status")
      // Its older form has one row, next to the receipt.
      let older = try json.objects("latest_receipt_info") ?? []
      let rows = try receipt?.objects("latest_receipt_info") ?? older
      var first: Purchase?
      for row in rows {
        let read = try VerifyReceiptRow(row)
        transactions.append(Row(read))
        first = first ?? read.purchase
        if bundleID == nil { bundleID = try row.text("bid") }
      }
      for element in try receipt?.objects("pending_renewal_info") ?? [] {
        renewals.append(Renewal(try VerifyReceiptRenewal(element).renewal))
      }
      // The older form tells of the renewal of that row beside it.
      if renewals.isEmpty, json["auto_renew_status"] != nil {
        renewals.append(Renewal(try VerifyReceiptRenewal(json, of: first).renewal))
      }
    } catch {
      problem = "This is a server notification of version 1, and it cannot be read: its \(error.place)."
    }
  }
}

extension JSONError {
  fileprivate var place: String {
    switch self {
    case .missing(let path): "\(path) is missing"
    case .unreadable(let path): "\(path) is unreadable"
    case .syntax, .tooLarge: "form is not JSON's"
    }
  }
}

extension ReceiptInspection.Report.Row {
  init(_ transaction: SignedTransaction) {
    self.init(transaction.purchase)
    quantity = transaction.quantity
    originalPurchaseDate = transaction.originalPurchaseDate.map(ReceiptDate.format)
    promotionalOfferID = transaction.offerID
    type = transaction.productType
    signedDate = ReceiptDate.format(transaction.signedDate)
  }

  init(_ row: VerifyReceiptRow) {
    self.init(row.purchase)
    promotionalOfferID = row.promotionalOfferID
  }

  private init(_ purchase: Purchase) {
    self.init(
      productID: purchase.productID.rawValue,
      transactionID: purchase.transactionID.rawValue,
      originalTransactionID: purchase.originalTransactionID.rawValue,
      purchaseDate: purchase.purchaseDate.map(ReceiptDate.format),
      expiresDate: purchase.expiresDate.map(ReceiptDate.format),
      cancellationDate: purchase.cancellationDate.map(ReceiptDate.format),
      webOrderLineItemID: purchase.webOrderLineItemID,
      isTrial: purchase.isTrial,
      isIntroductoryOffer: purchase.isIntroductoryOffer,
      isUpgraded: purchase.isUpgraded,
      ownership: purchase.ownership.rawValue,
      subscriptionGroupID: purchase.subscriptionGroupID?.rawValue,
      appAccountToken: purchase.appAccountToken)
  }
}

extension ReceiptInspection.Report {
  /// What is said about the next renewal of a subscription.
  struct Renewal: Encodable, Sendable {
    var originalTransactionID: String?
    var productID: String?
    var autoRenewProductID: String?
    var willRenew: Bool?
    var expirationIntent: Int?
    var isInBillingRetry: Bool?
    var gracePeriodExpiresDate: String?
    var renewalDate: String?
    var signedDate: String?

    init(_ info: SignedRenewalInfo) { self.init(info.renewal) }

    init(_ renewal: RenewalInfo) {
      originalTransactionID = renewal.originalTransactionID?.rawValue
      productID = renewal.productID?.rawValue
      autoRenewProductID = renewal.autoRenewProductID?.rawValue
      willRenew = renewal.autoRenews
      expirationIntent = renewal.expirationIntent
      isInBillingRetry = renewal.isInBillingRetry
      gracePeriodExpiresDate = renewal.gracePeriodExpiresDate.map(ReceiptDate.format)
      renewalDate = renewal.periodEnd.map(ReceiptDate.format)
      signedDate = renewal.reportedAt.map(ReceiptDate.format)
    }

    enum CodingKeys: String, CodingKey {
      case originalTransactionID = "original_transaction_id"
      case productID = "product_id"
      case autoRenewProductID = "auto_renew_product_id"
      case willRenew = "will_renew"
      case expirationIntent = "expiration_intent"
      case isInBillingRetry = "is_in_billing_retry_period"
      case gracePeriodExpiresDate = "grace_period_expires_date"
      case renewalDate = "renewal_date"
      case signedDate = "signed_date"
    }

    func encode(to encoder: any Encoder) throws {
      var container = encoder.container(keyedBy: CodingKeys.self)
      try container.encode(originalTransactionID, forKey: .originalTransactionID)
      try container.encode(productID, forKey: .productID)
      try container.encode(autoRenewProductID, forKey: .autoRenewProductID)
      try container.encode(willRenew, forKey: .willRenew)
      try container.encode(expirationIntent, forKey: .expirationIntent)
      try container.encode(isInBillingRetry, forKey: .isInBillingRetry)
      try container.encode(gracePeriodExpiresDate, forKey: .gracePeriodExpiresDate)
      try container.encode(renewalDate, forKey: .renewalDate)
      try container.encode(signedDate, forKey: .signedDate)
    }
  }
}
