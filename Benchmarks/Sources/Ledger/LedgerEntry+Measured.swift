extension LedgerEntry {
  /// Computes what is written down before the writer has its turn, and leaves it at that.
  ///
  /// - Returns: how many subscriptions would be written.
  package func prepare() throws -> Int { try PreparedEntry(self).subscriptions.count }
}
