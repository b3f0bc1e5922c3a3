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
        judgedAt: transaction.signedDate, purchases: [transaction.purchase], coverage: .parts(since: nil))
    }
  }
}

extension VerifiedNotification {
  /// What the rules judge: the transaction and the renewal info that the notification carries. Its type has no say.
  ///
  /// - Returns: `nil` where it carries neither, and for a store that is not known.
  package func history() -> PurchaseHistory? {
    guard let environment, transaction != nil || renewalInfo != nil else { return nil }
    let told = [signedDate, transaction?.transaction.signedDate, renewalInfo?.renewalInfo.signedDate]
    let newest = told.compactMap { $0 }.max() ?? signedDate
    return PurchaseHistory(
      environment: environment,
      source: .notification,
      evidenceTime: newest,
      judgedAt: newest,
      purchases: transaction.map { [$0.transaction.purchase] } ?? [],
      renewals: renewalInfo.map { [$0.renewalInfo.renewal] } ?? [],
      coverage: .parts(since: nil))
  }
}
