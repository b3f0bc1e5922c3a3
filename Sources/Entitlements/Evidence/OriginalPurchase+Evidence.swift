extension OriginalPurchase {
  /// The evidence of the download: a lifetime purchase of the app, by its bundle ID, under a key of its own.
  package func evidence(_ key: SubscriptionKey, of app: BundleID, source: EvidenceSource) -> SubscriptionEvidence {
    SubscriptionEvidence(
      key: key, source: source, evidenceTime: signedAt, evaluatedAt: signedAt,
      purchases: [
        Purchase(
          productID: ProductID(app.rawValue), transactionID: TransactionID(key.originalTransactionID.rawValue),
          originalTransactionID: key.originalTransactionID, purchaseDate: date, appVersion: version)
      ])
  }
}
