package import Entitlements

extension Verified<SignedTransaction> {
  /// The evidence: this one transaction, as it was when it was signed. It says nothing about others or about later
  /// changes.
  ///
  /// - Returns: `nil` for an unknown store.
  package func history() -> PurchaseHistory? {
    environment.map { environment in
      PurchaseHistory(
        environment: environment, source: .signature, evidenceTime: payload.signedDate,
        evaluatedAt: payload.signedDate, purchases: [payload.purchase], coverage: .partial(since: nil))
    }
  }
}

extension Verified<SignedAppTransaction> {
  /// The evidence: the app itself, and no purchase in it.
  ///
  /// - Returns: `nil` for an unknown store.
  package func history() -> PurchaseHistory? {
    environment.map { environment in
      var history = PurchaseHistory(
        environment: environment, source: .signature, evidenceTime: payload.signedDate,
        evaluatedAt: payload.signedDate, purchases: [], coverage: .partial(since: nil))
      history.originalPurchase = payload.originalPurchase
      return history
    }
  }
}

extension VerifiedNotification {
  /// The evidence: the transaction and the renewal info in the notification, and what it says of the subscription's
  /// status. Its type adds that a grace period is over, and why a subscription expired.
  ///
  /// The status is reported at the time of the notification, and so is the renewal info, which it confirms. The
  /// transaction is as it was when it was signed, unless it is the news: a copy from before a refund takes nothing back.
  ///
  /// - Returns: `nil` without either, and for an unknown store.
  package func history() -> PurchaseHistory? {
    guard let environment, transaction != nil || renewalInfo != nil else { return nil }
    let reported = [signedDate, transaction?.payload.signedDate, renewalInfo?.payload.signedDate]
    let newest = reported.compactMap { $0 }.max() ?? signedDate
    var purchase = transaction?.payload.purchase
    if Self.transactionNews.contains(notification.type) { purchase?.reportedAt = newest }
    var renewal = renewalInfo?.payload.renewal
    let isGraceOver = notification.type == "GRACE_PERIOD_EXPIRED"
    if status != nil || isGraceOver || expirationIntent != nil {
      renewal = renewal ?? RenewalInfo(originalTransactionID: purchase?.originalTransactionID)
    }
    if let status { renewal?.status = status }
    if isGraceOver { renewal?.isGraceOver = true }
    if renewal?.expirationIntent == nil { renewal?.expirationIntent = expirationIntent }
    renewal?.reportedAt = newest
    return PurchaseHistory(
      environment: environment,
      source: .notification,
      evidenceTime: newest,
      evaluatedAt: newest,
      purchases: purchase.map { [$0] } ?? [],
      renewals: renewal.map { [$0] } ?? [],
      coverage: .partial(since: nil))
  }

  /// The types whose news is the transaction itself.
  private static let transactionNews: Set = ["REFUND", "REFUND_REVERSED", "RENEWAL_EXTENDED", "REVOKE"]

  /// The status as sent. Type and subtype say so, too.
  ///
  /// https://developer.apple.com/documentation/appstoreservernotifications/subtype
  private var status: RenewalInfo.Status? {
    if let number = notification.status { return RenewalInfo.Status(rawValue: number) }
    if notification.subtype == "GRACE_PERIOD" { return .billingGracePeriod }
    return notification.type == "EXPIRED" ? .expired : nil
  }

  /// Apple's `expirationIntent`, as the subtype says it.
  private var expirationIntent: Int? {
    guard notification.type == "EXPIRED" else { return nil }
    return switch notification.subtype {
    case "VOLUNTARY": 1
    case "BILLING_RETRY": 2
    case "PRICE_INCREASE": 3
    case "PRODUCT_NOT_FOR_SALE": 4
    default: nil
    }
  }
}
