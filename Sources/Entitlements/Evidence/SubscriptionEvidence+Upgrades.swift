extension SubscriptionEvidence {
  /// The transactions ended by an upgrade, reported or inferred from a later purchase.
  package var upgradedTransactions: Set<TransactionID> {
    Set(readings().map(\.purchase).filter(\.isUpgraded).map(\.transactionID))
  }
}
