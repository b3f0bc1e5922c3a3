extension SubscriptionEvidence {
  /// What an upgrade cut off, as it is judged: also where nobody told it, and a later purchase shows it.
  package var upgradedTransactions: Set<TransactionID> {
    Set(readings().map(\.purchase).filter(\.isUpgraded).map(\.transactionID))
  }
}
