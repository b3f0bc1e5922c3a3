package import Entitlements

extension VerifiedTransaction {
  /// What the rules judge: this one transaction, as it was when it was signed. It says nothing of others, nor of what
  /// happened since.
  ///
  /// - Returns: `nil` for a store that is not known.
  package func history() -> PurchaseHistory? {
    environment.map { environment in
      PurchaseHistory(
        environment: environment, source: .signature, evidenceTime: transaction.signedDate,
        evaluatedAt: transaction.signedDate, purchases: [transaction.purchase], coverage: .partial(since: nil))
    }
  }
}

extension VerifiedNotification {
  /// What the rules judge: the transaction and the renewal info that the notification carries. Its type has no say.
  ///
  /// Both are told when the notification was signed: with it Apple says that this is how things stand, though what is
  /// inside may have been signed before.
  ///
  /// - Returns: `nil` where it carries neither, and for a store that is not known.
  package func history() -> PurchaseHistory? {
    guard let environment, transaction != nil || renewalInfo != nil else { return nil }
    let reported = [signedDate, transaction?.transaction.signedDate, renewalInfo?.renewalInfo.signedDate]
    let newest = reported.compactMap { $0 }.max() ?? signedDate
    var purchase = transaction?.transaction.purchase
    purchase?.reportedAt = newest
    var renewal = renewalInfo?.renewalInfo.renewal
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
}
