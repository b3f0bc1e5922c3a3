import Entitlements
import JSON

extension ReceiptInspection.Report {
  /// The report on a payload, which is not proven yet.
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
      renewals = [Renewal(info.renewal)]
    case .notification(let notification):
      bundleID = notification.bundleID?.rawValue
      environment = notification.environmentName?.lowercased()
      createdAt = notification.signedDate.map(ReceiptDate.format)
      type = notification.type
      subtype = notification.subtype
      uuid = notification.uuid
      status = notification.status
      appAppleID = notification.appAppleID
    case .appTransaction(let transaction):
      bundleID = transaction.bundleID.rawValue
      environment = transaction.environmentName?.lowercased()
      createdAt = ReceiptDate.format(transaction.signedDate)
      originalApplicationVersion = transaction.originalPurchase.version
    case .other(_, let members):
      bundleID = members.bundleID?.rawValue
      environment = members.environmentName?.lowercased()
      createdAt = members.signedDate.map(ReceiptDate.format)
    }
  }

  /// Adds the transaction and the renewal info of a notification, if readable.
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

  /// Adds a notification of version 1, but not its `password`, which is the shared secret.
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
        let purchase = try Purchase(row: row)
        transactions.append(Row(purchase))
        transactions[transactions.count - 1].promotionalOfferID = try row.text("promotional_offer_id")
        first = first ?? purchase
        if bundleID == nil { bundleID = try row.text("bid") }
      }
      for element in try receipt?.objects("pending_renewal_info") ?? [] {
        renewals.append(Renewal(try VerifyReceiptRenewal.decode(element)))
      }
      // The older form has the renewal facts of that row beside it.
      if renewals.isEmpty, json["auto_renew_status"] != nil {
        renewals.append(Renewal(try VerifyReceiptRenewal.decode(json, of: first)))
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

  init(_ purchase: Purchase) {
    self.init(
      productID: purchase.productID.rawValue,
      transactionID: purchase.transactionID.rawValue,
      originalTransactionID: purchase.originalTransactionID.rawValue,
      purchaseDate: purchase.purchaseDate.map(ReceiptDate.format),
      expiresDate: purchase.expiresDate.map(ReceiptDate.format),
      cancellationDate: purchase.cancellationDate.map(ReceiptDate.format),
      webOrderLineItemID: purchase.webOrderLineItemID,
      isTrialPeriod: purchase.isTrial,
      isInIntroOfferPeriod: purchase.isIntroductoryOffer,
      isUpgraded: purchase.isUpgraded,
      ownership: purchase.ownership.rawValue,
      subscriptionGroupID: purchase.subscriptionGroupID?.rawValue,
      appAccountToken: purchase.appAccountToken)
  }
}

extension ReceiptInspection.Report {
  struct Renewal: Encodable, Sendable {
    @Nullable var originalTransactionID: String?
    @Nullable var productID: String?
    @Nullable var autoRenewProductID: String?
    @Nullable var willRenew: Bool?
    @Nullable var expirationIntent: Int?
    @Nullable var isInBillingRetryPeriod: Bool?
    @Nullable var gracePeriodExpiresDate: String?
    @Nullable var renewalDate: String?
    @Nullable var signedDate: String?

    init(_ renewal: RenewalInfo) {
      originalTransactionID = renewal.originalTransactionID?.rawValue
      productID = renewal.productID?.rawValue
      autoRenewProductID = renewal.autoRenewProductID?.rawValue
      willRenew = renewal.autoRenews
      expirationIntent = renewal.expirationIntent
      isInBillingRetryPeriod = renewal.isInBillingRetry
      gracePeriodExpiresDate = renewal.gracePeriodExpiresDate.map(ReceiptDate.format)
      renewalDate = renewal.periodEnd.map(ReceiptDate.format)
      signedDate = renewal.reportedAt.map(ReceiptDate.format)
    }
  }
}
